"""The instrument on itself, from the command line to the folder, on a tiny model."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

from pipeline import __main__ as door
from pipeline import self_test as module
from pipeline.results.record import read_summary
from pipeline.schema import ConfigError
from pipeline.self_test import self_test
from tests.compose import CONF, config

SMALL = (
    *("+exp=self_test", "model=tiny", "workloads.decode.ladder=[15]", "measure.warmup_rounds=0", "measure.rounds=5"),
    *("measure.block_rounds=1", "self_test.runs=10", "self_test.delays=[0.25,0.9]", "self_test.must_find=0.9"),
    "track.enabled=false",
)
ARMS = ("plain", "control", "same", "delay-25", "delay-90")


def small(tmp_path, *overrides: str) -> tuple[str, ...]:
    return (*SMALL, *overrides, f"output_dir={tmp_path}")


def test_it_leaves_a_folder_like_any_run(tmp_path):
    outcome = self_test(config(*small(tmp_path)))
    found = read_summary(outcome.folder)
    tested = found.findings.self_test
    assert found.headline.startswith("the self test ")
    assert outcome.failed is not tested.passed
    status = json.loads((outcome.folder / "status.json").read_text())
    assert status["status"] == ("finished" if tested.passed else "failed")
    [case] = found.cases
    assert tuple(case.arms) == ARMS
    assert all(arm.check.passed for arm in case.arms.values())
    samples = np.load(outcome.folder / "samples" / "decode-15.npz")
    assert tuple(samples["arms"]) == ARMS and len(samples["seconds"]) == 50
    assert (tested.runs, tested.rounds, tested.stage) == (10, 5, "emit")
    assert [one.arm for one in tested.detections] == ["same", "delay-25", "delay-90"]
    same, quarter, most = tested.detections
    assert same.seconds == 0.0 and same.truth == 1.0
    assert quarter.seconds == pytest.approx(0.25 * tested.step, rel=0.2)
    assert most.seconds == pytest.approx(0.9 * tested.step, rel=0.2)
    delays = json.loads((outcome.folder / "delays.json").read_text())
    assert [(one["arm"], one["seconds"]) for one in delays] == [(one.arm, one.seconds) for one in tested.detections]
    report = (outcome.folder / "report.md").read_text()
    assert "What it detects on this machine" in report and "the smallest delay that this machine finds is" in report


@pytest.mark.parametrize("passed", [True, False])
def test_the_exit_code_is_that_of_the_bars(passed, tmp_path, monkeypatch, capsys):
    right = module.assess

    def assess(*given):
        found = right(*given)
        return replace(found, bars=tuple(replace(bar, needed=0 if passed else 11) for bar in found.bars))

    monkeypatch.setattr(module, "assess", assess)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = compose("config", [*small(tmp_path)])
    assert door._run(composed, []) == (0 if passed else 1)
    assert ("PASSED all" if passed else "MISSED 6 of 6 bars") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("workloads.decode.ladder=[15,20]", "needs one case, the workloads give 2"),
        ("measure.scope=attend", "measure.scope=stack"),
        ("measure.control=false", "control=true"),
        ("measure.l2=both", "one mode at a time"),
    ],
)
def test_what_it_cannot_do_is_told_before_anything_is_written(override, told, tmp_path):
    with pytest.raises(ConfigError, match=told):
        self_test(config(*small(tmp_path, override)))
    assert not list(tmp_path.iterdir())


def test_a_baseline_that_is_wrong_cannot_be_tested_with(tmp_path, monkeypatch):
    from kernels.select import topk_eager

    right = topk_eager.TopK.__call__
    monkeypatch.setattr(
        topk_eager.TopK, "__call__", lambda self, scores, visible, topk: right(self, scores, visible, topk).clamp(max=1)
    )
    with pytest.raises(RuntimeError, match="the baseline fails its check"):
        self_test(config(*small(tmp_path, "workloads.decode.ladder=[40]")))
