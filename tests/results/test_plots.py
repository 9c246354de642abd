from dataclasses import replace

import numpy as np
import pytest
from cases import DECODE, config, summary
from matplotlib.image import imread

from pipeline.results.palette import colours
from pipeline.results.plots import _figure, draw_plots
from pipeline.results.table import by_workload


@pytest.fixture
def panels():
    """Times and ratios of the decode ladder."""
    return _figure(summary(), by_workload(summary())["decode"], "tpot", "decode").axes


def curve(axes, arm):
    lines = next(container for container in axes.containers if container.get_label() == arm)[0]
    return np.asarray(lines.get_ydata(), dtype=float), lines


def test_a_picture_for_each_workload_and_metric(tmp_path):
    paths = draw_plots(summary(), config(), tmp_path)
    names = ["decode-tpot", "prefill-ttft", "serve-ttft", "serve-tpot"]
    assert paths == [tmp_path / "plots" / f"{name}.png" for name in names]
    for path in paths:
        assert min(imread(path).shape[:2]) > 600
    assert len(list((tmp_path / "plots").iterdir())) == 4


def test_times_are_the_means_and_a_failed_arm_leaves_a_gap(panels):
    never, _ = curve(panels[0], "never")
    cases = summary().cases
    assert never.tolist() == [case.arms["never"].metrics["mean_tpot_ms"] for case in cases[: len(DECODE)]]
    row, _ = curve(panels[0], "row.v2")
    assert [DECODE[place] for place in np.flatnonzero(np.isnan(row))] == [2052]
    assert [text.get_text() for text in panels[0].texts] == ["✕ failed"]


def test_ratios_lie_over_the_noise_band(panels):
    batch, line = curve(panels[1], "batch")
    assert batch.tolist() == pytest.approx([0.9] * 4 + [1.0] * 3)
    assert line.get_color() == colours(summary())["batch"]
    bands = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in panels[1].patches]
    assert bands == [pytest.approx((1 / 1.008, 1.008))] * len(DECODE)
    assert {container.get_label() for container in panels[1].containers if container.get_label()[0] != "_"} == {
        "batch",
        "row.v2",
    }


def test_contexts_are_evenly_spaced_and_told_apart(panels):
    assert list(panels[1].get_xticks()) == list(range(len(DECODE)))
    assert [label.get_text() for label in panels[1].get_xticklabels()] == [f"{context:,}" for context in DECODE]


def test_arms_keep_their_colour():
    found = colours(summary())
    assert len(set(found.values())) == len(found) == 4


def test_one_arm_alone_has_no_ratios():
    found = summary()
    cases = [replace(case, arms={"never": case.arms["never"]}) for case in found.cases if case.workload == "decode"]
    assert len(_figure(replace(found, control=None, cases=tuple(cases)), cases, "tpot", "decode").axes) == 1


def test_the_whiskers_of_a_time_are_its_interval():
    found = summary()
    case = found.cases[0]
    never = replace(case.arms["never"], metrics={"mean_tpot_ms": 2.0}, intervals={"tpot": (0.0015, 0.004)})
    case = replace(case, arms=case.arms | {"never": never})
    axes = _figure(replace(found, cases=(case,)), [case], "tpot", "decode").axes[0]
    bars = next(container for container in axes.containers if container.get_label() == "never")[2][0]
    assert bars.get_segments()[0][:, 1].tolist() == pytest.approx([1.5, 4.0])
