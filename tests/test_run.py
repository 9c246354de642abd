"""From the command line to the folder: every experiment and every variant runs, on a tiny model."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pipeline.fields import SCOPES
from pipeline.results.folder.record import read_config, read_summary
from pipeline.run import run
from pipeline.schema import ConfigError
from tests.compose import CONF, ON_GPU, config

SMALL = ("model=tiny", "engine.device=cpu", "measure.rounds=2", "measure.warmup_rounds=0", "track.enabled=false")
LADDERS = {"decode": "[15,40]", "prefill": "[40]"}
SELF_TEST = "self_test"  # has rules and tests of its own
EXPERIMENTS = sorted({path.stem for path in (CONF / "exp").glob("*.yaml")} - ON_GPU - {SELF_TEST})
VARIANTS = sorted(path.stem for path in (CONF / "variant").glob("*.yaml"))
SHARED = pytest.mark.xdist_group("short_ctx")  # in one worker, so that its run is made once


def ran(tmp_path: Path, *overrides: str):
    outcome = run(config(*overrides, *SMALL, f"output_dir={tmp_path}"), overrides)
    return outcome, read_summary(outcome.folder)


def small_ladders(experiment: str) -> list[str]:
    made = config(f"+exp={experiment}", "model=tiny", "engine.device=cpu")
    wanted = [
        (f"workloads.{name}.ladder={LADDERS[name]}", f"workloads.{name}.boundary=null")
        if workload.ladder
        else (f"workloads.{name}.num_requests=4",)
        for name, workload in made.workloads.items()
    ]
    return [override for some in wanted for override in some]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Callable:
    """An experiment's outcome and summary; each runs once."""

    @cache
    def of(experiment: str):
        return ran(tmp_path_factory.mktemp(experiment), f"+exp={experiment}", *small_ladders(experiment))

    return of


@pytest.mark.parametrize(
    "experiment", [pytest.param(name, marks=SHARED if name == "short_ctx" else ()) for name in EXPERIMENTS]
)
def test_every_experiment_runs(experiment, finished):
    outcome, summary = finished(experiment)
    assert not outcome.failed, summary.headline
    for case in summary.cases:
        for arm in case.arms.values():
            assert arm.check.passed, arm.check.detail
            assert arm.metrics
        samples = np.load(outcome.folder / "samples" / f"{case.case}.npz")
        assert samples["seconds"].shape == (2, case.steps, len(case.arms))
        assert (samples["seconds"] > 0).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_runs(variant, tmp_path):
    """One with a kernel that needs a GPU is refused without one, and says so."""
    asked = ("+exp=short_ctx", f"variant@arms.batch={variant}", "~arms.row", "~arms.direct", "measure.breakdown=false")
    try:
        outcome, summary = ran(tmp_path, *asked, *small_ladders("short_ctx"))
    except ConfigError as error:
        assert all("runs on cuda only" in line or "a CPU has none" in line for line in error.lines), error.lines
        assert any("runs on cuda only" in line for line in error.lines)
        assert not list(tmp_path.iterdir())
    else:
        assert not outcome.failed, summary.headline


def test_short_ctx_takes_the_fast_path_where_all_entries_fit(tmp_path):
    decode = ("workloads.decode.ladder=[15,16,19,20]", "workloads.decode.boundary=null")
    _, summary = ran(tmp_path, "+exp=short_ctx", *decode, "workloads.prefill.ladder=[19,20]")
    fast = {case.case: {arm: found.path.skipped_rows for arm, found in case.arms.items()} for case in summary.cases}
    all_of = {"never": 0, "batch": 4, "row": 4, "direct": 4, "control": 0}
    assert fast["decode-15"] == fast["decode-16"] == fast["decode-19"] == all_of
    assert fast["decode-20"] == dict.fromkeys(all_of, 0), "the first token, at 19, is in no TPOT"
    assert fast["prefill-19"] == {"never": 0, "batch": 19, "row": 19, "direct": 19, "control": 0}
    assert fast["prefill-20"] == {"never": 0, "batch": 0, "row": 19, "direct": 19, "control": 0}


def test_a_wrong_arm_fails_the_run_and_gets_no_number(tmp_path, monkeypatch):
    from kernels.select import topk_eager

    right = topk_eager.TopK.__call__

    def wrong(self, scores, visible, topk):
        return right(self, scores, visible, topk).clamp(max=3)

    monkeypatch.setattr(topk_eager.TopK, "__call__", wrong)
    outcome, summary = ran(tmp_path, "+exp=short_ctx", *small_ladders("short_ctx"))
    assert outcome.failed
    assert json.loads((outcome.folder / "status.json").read_text())["status"] == "failed"
    for case in summary.cases:
        for arm in case.arms.values():
            if not arm.check.passed:
                assert arm.metrics == {}
                assert arm.undefined
                assert all("failed its check" in reason for reason in arm.undefined.values())
    assert not all(arm.check.passed for arm in summary.cases[-1].arms.values())


@SHARED
def test_the_recorded_config_gives_the_same_work(finished):
    first, summary = finished("short_ctx")
    again = run(read_config(first.folder))
    repeated = read_summary(again.folder)
    assert first.folder != again.folder
    assert read_config(again.folder) == read_config(first.folder)
    assert [case.digest for case in summary.cases] == [case.digest for case in repeated.cases]
    errors = [[arm.check.error for arm in case.arms.values()] for case in summary.cases]
    assert errors == [[arm.check.error for arm in case.arms.values()] for case in repeated.cases]


def test_a_run_is_tracked_once_and_a_dead_tracker_costs_no_result(tmp_path, monkeypatch, capsys):
    from pipeline.results import track

    asked = ("+exp=short_ctx", *small_ladders("short_ctx"), *SMALL, f"output_dir={tmp_path}", "track.enabled=true")
    outcome = run(config(*asked))
    assert not outcome.failed
    told = json.loads((outcome.folder / "mlflow.json").read_text())
    assert set(told["arms"]) == {"never", "batch", "row", "direct", "control"}

    def dead(*_):
        raise track.TrackError("the store is gone\nUpload later: python -m pipeline.results.track FOLDER")

    monkeypatch.setattr(track, "track", dead)
    outcome = run(config(*asked, "~arms.row", "~arms.direct", "measure.breakdown=false"))
    assert outcome.failed
    assert (outcome.folder / "report.md").exists()
    assert "Upload later" in capsys.readouterr().err


def test_a_broken_arm_is_told_and_the_others_are_measured(tmp_path, monkeypatch):
    from kernels.select import locate_direct

    def broken(self, chosen, scored, rows, pages, ratio, width):
        raise RuntimeError("no such luck")

    monkeypatch.setattr(locate_direct.Locate, "__call__", broken)
    outcome, summary = ran(tmp_path, "+exp=short_ctx", *small_ladders("short_ctx"))
    assert outcome.failed
    for case in summary.cases:
        assert "no such luck" in case.arms["direct"].check.detail
        assert not case.arms["direct"].metrics
        assert case.arms["batch"].metrics


def test_if_every_arm_breaks_each_reason_is_kept(tmp_path, monkeypatch):
    from kernels.emit import eager

    def broken(self, o, rope, rows, wo_a):
        raise RuntimeError("no such luck")

    monkeypatch.setattr(eager.Emit, "__call__", broken)
    outcome, summary = ran(tmp_path, "+exp=short_ctx", *small_ladders("short_ctx"))
    assert outcome.failed
    assert all("no such luck" in arm.check.detail for case in summary.cases for arm in case.arms.values())
    assert (outcome.folder / "report.md").exists()


@pytest.mark.parametrize("scope", SCOPES)
def test_every_stage_can_be_timed_alone_in_a_mixed_stack(scope, tmp_path):
    arms = [f"variant@arms.{name}=gathered" for name in ("never", "batch", "row", "direct")]
    outcome, summary = ran(
        *(tmp_path, "+exp=short_ctx", *small_ladders("short_ctx"), f"measure.scope={scope}", "engine.layers=3"),
        *(arms if scope in ("gather", "combine") else []),
    )
    assert not outcome.failed, summary.headline
    for case in summary.cases:
        assert all(arm.metrics["mean_step_us"] > 0 for arm in case.arms.values())


def test_an_arm_that_becomes_wrong_under_the_clock_gets_no_number(tmp_path, monkeypatch):
    from kernels.select import locate_direct

    right, calls = locate_direct.Locate.__call__, []

    def late(self, chosen, scored, rows, pages, ratio, width):
        calls.append(1)
        slots, lengths = right(self, chosen, scored, rows, pages, ratio, width)
        return (slots, lengths) if len(calls) < 4 else (slots.roll(1, 0), lengths)

    monkeypatch.setattr(locate_direct.Locate, "__call__", late)
    outcome, summary = ran(tmp_path, "+exp=short_ctx", *small_ladders("short_ctx"))
    assert outcome.failed
    assert "after it was timed" in summary.cases[0].arms["direct"].check.detail
    assert not summary.cases[0].arms["direct"].metrics
    assert summary.cases[0].arms["batch"].metrics


@pytest.mark.parametrize(("section", "left"), [("attributed", False), ("conclude", True)])
def test_a_section_that_fails_leaves_those_before_it(section, left, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("no such luck")

    monkeypatch.setattr(f"pipeline.run.{section}", broken)
    with pytest.raises(RuntimeError, match="no such luck"):
        ran(tmp_path, "+exp=short_ctx", *small_ladders("short_ctx"), "~arms.row", "~arms.direct")
    [folder] = (tmp_path / "short_ctx").iterdir()
    found = read_summary(folder).findings
    assert found.machine.blocks > 0 and bool(found.breakdowns) is left
    assert json.loads((folder / "status.json").read_text())["status"] == "failed"
