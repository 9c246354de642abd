"""The instrument on itself, from the command line to the folder, on a tiny model."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig

from pipeline import __main__ as door
from pipeline import self_test as module
from pipeline.door.selftest import LEAST_BLOCKS, hidden, overlapped
from pipeline.evidence import stats
from pipeline.results.folder.record import read_summary
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


@pytest.mark.xdist_group("cores")
def test_it_leaves_a_folder_like_any_run(tmp_path):
    outcome = self_test(config(*small(tmp_path)))
    found = read_summary(outcome.folder)
    tested = found.findings.self_test
    assert found.headline[0].startswith("the self test ")
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
        ("workloads.decode.ladder=[15,20]", "self_test: needs one case, the workloads give 2"),
        ("measure.scope=attend", "measure.scope=attend: a self test finds delays in whole steps"),
        ("measure.control=false", "measure.control=false: a self test compares with a control"),
        ("measure.l2=both", "measure.l2=both: a self test takes one mode at a time"),
        ("gate.max_regression=1%", "gate.max_regression='1%': a self test has bars of its own"),
        ("gate.require=faster", "gate.require='faster': a self test has bars of its own"),
        ("claim=pr_49486", "claim="),
        ("traffic=azure_2023_conv", "traffic="),
        ("projection={benchmark:BENCHMARK,layers:{csa:21}}", "projection="),
        ("+variant@arms.row=row", "against itself, row would be left out; drop '~arms.row'"),
        ("self_test.delays=[0.05,0.0500000001,0.9]", "0.05, 0.0500000001 repeated; give each delay once"),
        ("self_test.delays=[0.9,0.9]", "0.9, 0.9 repeated"),
        ("self_test.must_find=0.95", "self_test.must_find=0.95: is above every delay"),
        ("measure.rounds=4", "in blocks of 1 a run has 4, an interval needs 5; give measure.rounds=5 or more"),
        ("measure.block_rounds=2", "in blocks of 2 a run has 2, an interval needs 5; give measure.rounds=10 or more"),
    ],
)
def test_what_it_cannot_do_is_told_of_all_jobs_before_the_first(override, told, tmp_path, monkeypatch, capsys):
    """A multirun whose first job is sound."""
    (tmp_path / "bench.json").write_text('{"mean_ttft_ms": 1e6, "mean_tpot_ms": 1e6}')
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    override = override.replace("BENCHMARK", str(tmp_path / "bench.json"))
    asked = [text for text in SMALL if text.partition("=")[0] != override.partition("=")[0]]
    typed = [*asked, override, "engine.device=cpu", "seed=1,2", "-m", f"output_dir={tmp_path / 'out'}"]
    monkeypatch.setattr("sys.argv", ["pipeline", *typed])
    with pytest.raises(SystemExit) as ended:
        door.main()
    assert ended.value.code == door.BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["same", "delay-5", "delay-25"])
def test_an_arm_cannot_have_the_name_of_its_own(name, tmp_path):
    asked = [*small(tmp_path), "~arms.plain", f"+variant@arms.{name}=never"]
    with pytest.raises(ConfigError, match=f"arms.{name}: the self test calls an arm of its own so"):
        config(*asked)


def test_the_blocks_of_an_interval_are_those_of_the_door():
    assert LEAST_BLOCKS == stats.MINIMUM_BLOCKS


def test_on_a_gpu_steps_have_to_be_graphs():
    engine = config(*SMALL).engine
    assert list(hidden(replace(engine, device="cpu", graph="off"))) == []
    assert list(hidden(replace(engine, device="cuda", graph="full"))) == []
    (line,) = hidden(replace(engine, device="cuda", graph="off"))
    assert line.startswith("engine.graph=off: ") and line.endswith("set engine.graph=full")


def test_a_delay_may_not_hide_beside_other_stages():
    found = config(*SMALL)
    two = {name: replace(variant, streams=2) for name, variant in found.arms.items()}
    asked = replace(found.self_test, stage="ingest")
    (line,) = overlapped(asked, two)
    assert line == (
        "self_test.stage=ingest: with arms.plain.streams=2 compress and select run beside it and hide a delay; "
        "set self_test.stage=emit or arms.plain.streams=1"
    )
    assert not [*overlapped(asked, found.arms), *overlapped(replace(asked, stage="emit"), two)]


def test_a_baseline_that_is_wrong_cannot_be_tested_with(tmp_path, monkeypatch):
    from kernels.select import topk_eager

    right = topk_eager.TopK.__call__
    monkeypatch.setattr(
        topk_eager.TopK, "__call__", lambda self, scores, visible, topk: right(self, scores, visible, topk).clamp(max=1)
    )
    with pytest.raises(RuntimeError, match="the baseline fails its check"):
        self_test(config(*small(tmp_path, "workloads.decode.ladder=[40]")))
