from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from matplotlib.image import imread

from pipeline.results.plots import pictures, write_pngs
from pipeline.results.plots.ladder import figure, view
from pipeline.results.plots.palette import colours
from pipeline.results.plots.picture import svg
from pipeline.results.table import by_workload
from tests.results.cases import DECODE, config, summary
from tests.results.full import full


@pytest.fixture
def panels():
    """Times and ratios of the decode ladder."""
    return figure(summary(), by_workload(summary())["decode"], "tpot", "decode").axes


def curve(axes, arm):
    lines = next(container for container in axes.containers if container.get_label() == arm)[0]
    return np.asarray(lines.get_ydata(), dtype=float), lines


def test_a_picture_for_each_workload_and_metric(tmp_path):
    paths = write_pngs(pictures(summary(), config(), "H200"), tmp_path)
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
    assert len(figure(replace(found, control=None, cases=tuple(cases)), cases, "tpot", "decode").axes) == 1


def test_the_whiskers_of_a_time_are_its_interval():
    found = summary()
    case = found.cases[0]
    never = replace(case.arms["never"], metrics={"mean_tpot_ms": 2.0}, intervals={"tpot": (0.0015, 0.004)})
    case = replace(case, arms=case.arms | {"never": never})
    axes = figure(replace(found, cases=(case,)), [case], "tpot", "decode").axes[0]
    bars = next(container for container in axes.containers if container.get_label() == "never")[2][0]
    assert bars.get_segments()[0][:, 1].tolist() == pytest.approx([1.5, 4.0])


@cache
def everything():
    return pictures(full(), config(), "H200")


def drawn(name):
    return next(picture.figure for picture in everything() if picture.name == name)


def test_findings_bring_pictures_of_their_own():
    found = everything()
    assert [(picture.name, picture.topic) for picture in found] == [
        ("overall", "times"),
        ("decode-tpot", "times"),
        ("prefill-ttft", "times"),
        ("serve-ttft", "times"),
        ("serve-tpot", "times"),
        ("decode-stages", "stages"),
        ("decode-limits", "stages"),
    ]
    for picture in found:
        assert picture.figure.axes[0].get_title(loc="left").endswith("tiny, layers csa, tp 8, stack, H200")


def test_stages_are_stacked_to_the_step():
    axes = drawn("decode-stages").axes[0]
    assert [label.get_text().split() for label in axes.get_yticklabels()][:4] == [
        ["never", "1,024"],
        ["batch", "1,024"],
        ["row.v2", "1,024"],
        ["never", "2,047"],
    ]
    first = [bar for bar in axes.patches if bar.get_y() + bar.get_height() / 2 == axes.get_yticks()[0]]
    assert [bar.get_width() for bar in first] == pytest.approx([8.1, 12.4, 61.0, 84.5, 9.2, 4.0])
    assert [bar.get_x() for bar in first] == pytest.approx(np.cumsum([0, 8.1, 12.4, 61.0, 84.5, 9.2]))
    labels = {text.get_text() for text in drawn("decode-stages").legends[0].get_texts()}
    assert labels == {"ingest", "compress", "select", "attend", "emit", "rest", "whole step"}


def test_limits_are_those_of_the_longest_context():
    axes = drawn("decode-limits").axes[0]
    assert "4,096" in axes.get_title(loc="left") and axes.get_xscale() == "log"
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["ingest", "compress", "select", "select: score", "attend", "emit"]
    dots = next(line for line in axes.lines if line.get_label() == "never")
    assert list(dots.get_xdata()) == pytest.approx([8.1, 12.4, 61.0, 48.8, 84.5, 9.2])
    ticks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "|" and len(line.get_xdata())]
    assert ticks[:3] == pytest.approx([0.4 * 8.1, 0.4 * 12.4, 0.4 * 61.0])


def test_means_over_all_contexts_leave_out_the_control():
    axes = drawn("overall").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["batch · decode", "row.v2 · decode"]
    assert [text.get_text() for text in axes.texts] == ["FASTER -5.8 %", "UNDECIDED -1.4 %"]
    assert list(axes.lines[0].get_xdata()) == pytest.approx([0.938, 0.946])
    assert "shaded: noise" in axes.get_xlabel()


def test_without_a_control_the_margin_is_what_is_shaded():
    found = full()
    means = tuple(replace(one, comparison=replace(one.comparison, noise=None)) for one in found.overall)
    [picture] = [one for one in pictures(replace(found, overall=means), config(), "H200") if one.name == "overall"]
    assert "shaded: margin" in picture.figure.axes[0].get_xlabel()


def test_a_step_far_beyond_the_others_is_cut_and_its_length_written():
    found = full()
    first, *others = found.findings.breakdowns
    slow = replace(found, findings=replace(found.findings, breakdowns=(replace(first, step=0.025), *others)))
    axes = next(one.figure for one in pictures(slow, config(), "H200") if one.name == "decode-stages").axes[0]
    assert axes.get_xlim()[1] < 1000
    assert [text.get_text() for text in axes.texts] == ["25,000 →"]


def test_an_interval_beyond_reason_leaves_the_values_apart():
    bottom, top = view([(0.8, 0.01, 0.01), (1.0, 0.7, 6.0), (np.nan, 1, 1)], 0.15)
    assert bottom == pytest.approx(0.6 - 0.036) and top == pytest.approx(1.2 + 0.036)


def test_hollow_where_the_fast_path_was_not_taken(panels):
    hollow = [line for line in panels[1].lines if line.get_color() == "white"]
    places = [np.asarray(line.get_xdata()).round().astype(int).tolist() for line in hollow]
    assert [[DECODE[place] for place in column] for column in places] == [[2052, 4096, 8192]] * 2


def test_a_drawing_follows_the_colours_of_its_page():
    drawing = svg(everything()[0])
    assert drawing.startswith('<svg role="img" aria-label="Geometric mean of every arm over never"')
    assert "var(--c-0072b2, #0072b2)" in drawing and "batch · decode" in drawing and "<metadata" not in drawing
