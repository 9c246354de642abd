"""A whole run: what was found in the stages is in the summary, and their samples lie beside those of the steps."""

import numpy as np
import pytest

from pipeline.results.folder.record import read_summary
from pipeline.results.report.stages import stages
from pipeline.results.verdict import doubts
from pipeline.run import run
from tests.compose import config

SMALL = (
    *(
        "+exp=short_ctx",
        "model=tiny",
        "engine.device=cpu",
        "engine.layers=4",
        "track.enabled=false",
        "~workloads.prefill",
    ),
    *("workloads.decode.ladder=[15,40]", "workloads.decode.boundary=null", "~arms.row", "~arms.direct"),
    *("measure.warmup_rounds=0", "measure.breakdown_seconds=0.01"),
)


def ran(tmp_path, *overrides: str):
    outcome = run(config(*SMALL, *overrides, f"output_dir={tmp_path}"))
    return outcome.folder, read_summary(outcome.folder)


def test_breakdowns_and_explanations_of_every_case(tmp_path):
    folder, summary = ran(tmp_path, "measure.rounds=5", "measure.block_rounds=1")
    found = summary.findings
    assert {(each.case, each.arm) for each in found.breakdowns} == {
        (case, arm) for case in ("decode-15", "decode-40") for arm in ("never", "batch")
    }
    for each in found.breakdowns:
        assert each.step == pytest.approx(each.rest + sum(stage.seconds for stage in each.whole))
        assert {"project", "ingest", "compress", "select", "cover", "attend", "emit"} <= {it.stage for it in each.whole}
        assert all(stage.seconds > 0 and stage.low <= stage.seconds <= stage.high for stage in each.stages)
        assert 0 < each.bytes_limit <= each.limit * (1 + 1e-6)
    by_arm = {(each.case, each.arm): {it.stage for it in each.stages} for each in found.breakdowns}
    assert "score" in by_arm["decode-15", "never"] and "score" not in by_arm["decode-15", "batch"]
    assert [(each.case, each.arm, each.changed) for each in found.explanations] == [
        ("decode-15", "batch", ("select",)),
        ("decode-40", "batch", ("select",)),
    ]
    assert found.roof.copy_bytes_per_second > 0
    for part in ("csa.select", "csa.select.locate", "hca.cover", "swa.attend"):
        held = np.load(folder / "samples" / f"decode-15@{part}.npz")
        assert str(held["scope"]) == part.rpartition(".")[2]
        assert len(held["seconds"]) == 5 and (held["seconds"] > 0).any()
    assert stages(found).count("<details>") == 2


def test_left_out_where_it_is_not_wanted(tmp_path):
    folder, summary = ran(tmp_path, "measure.rounds=1", "measure.breakdown=false")
    assert not summary.findings.breakdowns and summary.findings.roof is None
    assert not list((folder / "samples").glob("*@*"))


def test_a_stage_that_cannot_be_timed_alone_does_not_fail_the_case(tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("not twice")

    monkeypatch.setattr("pipeline.evidence.breakdown.apart.parts", broken)
    _, summary = ran(tmp_path, "measure.rounds=1")
    assert len(summary.cases) == 2 and not summary.findings.breakdowns
    assert "decode-15: no breakdown, RuntimeError: not twice" in capsys.readouterr().err
    assert summary.findings.left_out == tuple(
        f"decode-{context}: no breakdown, RuntimeError: not twice" for context in (15, 40)
    )
    assert "left out: decode-40: no breakdown, RuntimeError: not twice" in doubts(summary)


def test_a_case_in_which_no_arm_calls_the_stage_is_told(tmp_path):
    _, summary = ran(tmp_path, "measure.rounds=1", "measure.scope=score", "~arms.never")
    assert [case.case for case in summary.cases] == ["decode-40"]
    assert summary.findings.left_out[0] == "decode-15: no arm calls score in it"
