from dataclasses import replace

import pytest

from pipeline.evidence.summary import FastPath
from pipeline.results.table import significant, tables, workload_digest
from pipeline.results.verdict import doubts
from tests.results.cases import DECODE, config, summary


@pytest.mark.parametrize(
    ("value", "text"),
    [(12.3149, "12.31"), (0.0451234, "0.04512"), (1234.56, "1,235"), (9876543.0, "9,876,543"), (0.0, "0.000"),
     (9.99996, "10.00"), (3.4e-7, "0.0000003400")],
)  # fmt: skip
def test_significant_figures(value, text):
    assert significant(value) == text


def test_a_table_for_each_workload_and_metric():
    """TTFT beside TPOT only where a prompt is prefilled."""
    found = tables(summary(), config())
    assert [(table.workload, table.metric) for table in found] == [
        ("decode", "tpot"),
        ("prefill", "ttft"),
        ("serve", "ttft"),
        ("serve", "tpot"),
    ]
    assert [table.title for table in found[:2]] == ["decode: TPOT ms", "prefill: TTFT ms"]
    assert found[0].ratio_header == "ratio [95 % jointly]"


def test_rows():
    rows = tables(summary(), config())[0].rows
    assert [row.context for row in rows if row.context] == [f"{context:,}" for context in DECODE]
    baseline, control, batch, row = rows[4:8]  # context 2,047
    assert (baseline.verdict, baseline.ratio, baseline.fast_path) == ("baseline", "-", "-")
    assert (control.verdict, control.ratio) == ("±0.8 %", "1.002 [0.995, 1.008]")
    assert (batch.verdict, batch.ratio) == ("FASTER", "0.900 [0.894, 0.905]")
    assert (batch.value, batch.fast_path, batch.check, batch.throughput) == ("9.832", "7/7", "ok (2e-03)", "406.8")
    assert row.arm == "row.v2"


def test_an_arm_that_failed_has_no_number():
    row = next(row for row in tables(summary(), config())[0].rows if row.check == "FAILED")
    assert (row.arm, row.verdict, row.value, row.ratio, row.throughput) == ("row.v2", "FAILED", "-", "-", "-")


def test_few_rounds_give_a_ratio_without_an_interval():
    found = summary()
    case = found.cases[0]
    comparison = replace(case.arms["batch"].comparisons["tpot"], low=None, high=None, noise=None, verdict="UNDECIDED")
    control = replace(case.arms["control"], comparisons={"tpot": replace(comparison, ratio=1.0)})
    arms = case.arms | {"batch": replace(case.arms["batch"], comparisons={"tpot": comparison}), "control": control}
    rows = tables(replace(found, cases=(replace(case, arms=arms),)), config())[0].rows
    assert (rows[2].verdict, rows[2].ratio) == ("UNDECIDED", "0.900")
    assert (rows[1].verdict, rows[1].ratio) == ("-", "1.000")


def test_a_path_that_takes_some_rows_says_how_many():
    found = summary()
    case = found.cases[0]
    arms = case.arms | {"batch": replace(case.arms["batch"], path=FastPath(13, 28, 7, 7, True))}
    rows = tables(replace(found, cases=(replace(case, arms=arms),)), config())[0].rows
    assert rows[2].fast_path == "7/7 (46 %)"


def test_the_digest_of_a_workload_depends_on_every_case():
    cases = list(summary().cases[:3])
    other = [*cases[:2], replace(cases[2], digest="another")]
    assert workload_digest(cases) == workload_digest(list(summary().cases[:3])) != workload_digest(other)


def test_an_arm_that_raised_says_so():
    found = summary()
    case = found.cases[0]
    check = replace(case.arms["batch"].check, passed=False, error=float("nan"), ran=False)
    arms = case.arms | {"batch": replace(case.arms["batch"], check=check, metrics={}, comparisons={})}
    row = tables(replace(found, cases=(replace(case, arms=arms),)), config())[0].rows[2]
    assert (row.check, row.verdict, row.value, row.throughput) == ("RAISED", "FAILED", "-", "-")


def test_a_noise_floor_beyond_measure_is_told_in_words_and_its_interval_left_out():
    case = summary().cases[0]
    wide = {"low": 1e-90, "high": 1e90, "noise": 1e90}
    arms = {
        name: replace(held, comparisons={metric: replace(one, **wide) for metric, one in held.comparisons.items()})
        for name, held in case.arms.items()
    }
    found = replace(summary(), cases=(replace(case, arms=arms),))
    control, batch = tables(found, config())[0].rows[1:3]
    assert (control.verdict, control.ratio) == ("too few blocks", "1.002")
    assert batch.ratio == "0.900"
    assert any(line.startswith("no noise floor: too few blocks for this confidence") for line in doubts(found))
    assert not any("e+" in line or "0000000" in line for line in doubts(found))
