from dataclasses import replace

import pytest

from pipeline.evidence import conclude as module
from pipeline.evidence.conclude import conclude
from pipeline.evidence.timing.modes import in_modes
from pipeline.questions import Gate, Projection, Traffic
from pipeline.results.folder.record import failure
from pipeline.work.brought import Brought
from pipeline.work.traffic import drawn
from pipeline.work.workload import cases
from tests.compose import config
from tests.evidence.answers.summaries import case, compared, summary

CONFIG = replace(config("+exp=short_ctx", "engine.device=cpu"), gate=Gate(0.01, None, "fail"), traffic={})


def test_the_gate_misses_the_cases_that_were_left_out():
    found = conclude(summary(case(1024, compared(0.9))), CONFIG, None).findings.gate
    asked = [trial.case.name for trial in in_modes(cases(CONFIG.workloads, CONFIG.model, CONFIG.seed), CONFIG)]
    missing = [name for name in asked if name != "decode-1024"]
    assert "decode-1024" in asked and missing and not found.held
    assert found.lines[:-1] == tuple(f"UNDECIDED: {name} was left out" for name in missing)
    let_pass = replace(CONFIG, gate=Gate(0.01, None, "pass"))
    assert conclude(summary(case(1024, compared(0.9))), let_pass, None).findings.gate.held


def test_where_all_cases_are_there_none_is_missed():
    only = {"decode": replace(CONFIG.workloads["decode"], ladder=[1024], boundary=None)}
    assert conclude(summary(case(1024, compared(0.9))), replace(CONFIG, workloads=only), None).findings.gate.held


def reading(tmp_path, rows: str) -> Brought:
    path = tmp_path / "mine.csv"
    path.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}")
    return Brought({"mine": drawn(Traffic(trace=str(path)))}, {})


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("2023-11-16 18:17:03,1500,1\n", ("traffic mine over decode: none of its requests has a decode step",)),
        (
            "2023-11-16 18:17:03,9,3\n",
            ("traffic mine over decode: none of its decode steps lies within 1,024 to 2,048",),
        ),
        ("2023-11-16 18:17:03,1500,3\n", ()),
    ],
)
def test_a_traffic_of_which_nothing_is_told_is_named(tmp_path, rows, told):
    found = summary(case(1024, compared(0.9)), case(2048, compared(0.9)))
    assert conclude(found, CONFIG, None, reading(tmp_path, rows)).findings.left_out == told


def test_traffics_of_one_fate_share_a_line(tmp_path):
    (mine,) = reading(tmp_path, "2023-11-16 18:17:03,9,3\n").traffic.values()
    found = summary(case(1024, compared(0.9)), case(2048, compared(0.9)))
    (line,) = conclude(found, CONFIG, None, Brought({"mine": mine, "yours": mine}, {})).findings.left_out
    assert line.startswith("traffic mine, yours over decode: none of its decode steps")


def test_a_traffic_needs_two_contexts(tmp_path):
    found = conclude(summary(case(1024, compared(0.9))), CONFIG, None, reading(tmp_path, "2023-11-16 18:17:03,9,3\n"))
    assert found.findings.left_out == ("traffic mine: no arm is compared at two contexts of a workload",)


@pytest.mark.parametrize(
    ("name", "section"), [("applies", "applies"), ("judged", "claim"), ("projected", "projection"), ("gated", "gate")]
)
def test_what_fails_costs_its_own_section(monkeypatch, name, section):
    def breaking(*_):
        raise ZeroDivisionError("no luck")

    asked = config("+exp=short_ctx", "engine.device=cpu", "claim=pr_49486", "gate.max_regression=0.5")
    asked = replace(asked, projection=Projection("gone.json", {"csa": 21}))
    asked = replace(asked, workloads={"decode": replace(asked.workloads["decode"], ladder=[1024, 2048], boundary=None)})
    given = (summary(case(1024, compared(0.9)), case(2048, compared(0.9))), asked, None, Brought({}, {"tpot": 0.1}))
    whole = conclude(*given).findings
    assert whole.broken == () and whole.gate.held and failure(conclude(*given)) is None
    monkeypatch.setattr(module, name, breaking)
    found = conclude(*given)
    assert found.findings.broken == (f"{section}: ZeroDivisionError: no luck",)
    assert f"sections that could not be made: {section}: ZeroDivisionError: no luck" in failure(found)
    for field in ("applies", "claim", "projected", "gate"):
        lost = field == section or (field, section) == ("projected", "projection")
        if not lost:
            assert getattr(found.findings, field) == getattr(whole, field)
    assert whole.applies and whole.claim and whole.projected
    assert found.findings.gate.held is (section != "gate")
