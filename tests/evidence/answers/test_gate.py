"""A gate holds, is violated, or cannot tell: and what it cannot tell it does not let pass."""

from dataclasses import replace

import pytest

from pipeline.evidence.answers.gate import gated
from pipeline.evidence.stats import certain_bias
from pipeline.evidence.summary import FastPath, Overall
from pipeline.questions import Gate
from tests.evidence.answers.summaries import FAILED, case, compared, summary


def gate(max_regression=None, require=None, undecided="fail") -> Gate:
    return Gate(max_regression, require, undecided)


def test_without_a_demand_there_is_no_gate():
    assert gated(summary(case(1024, compared(1.5, "SLOWER"))), gate()) is None


@pytest.mark.parametrize(
    ("ratio", "half", "undecided", "held"),
    [
        (0.90, 0.01, "fail", True),
        (1.00, 0.01, "fail", True),  # the upper end is the allowance itself
        (1.00, 0.011, "fail", False),
        (1.00, 0.011, "pass", True),
        (1.03, 0.01, "fail", False),
        (1.03, 0.01, "pass", False),  # beyond the allowance for certain
        (1.03, 0.02, "pass", True),  # its lower end is the allowance itself
        (0.90, None, "fail", False),
        (0.90, None, "pass", True),
    ],
)
def test_a_regression_is_judged_by_both_ends_of_the_interval(ratio, half, undecided, held):
    found = gated(summary(case(1024, compared(ratio, "SAME", half))), gate(0.01, undecided=undecided))
    assert found.held is held
    assert found.lines[-1].endswith(f"gate.max_regression=1% gate.undecided={undecided}")


def test_each_case_is_judged_and_only_what_does_not_hold_is_told():
    cases = [case(1024, compared(0.9)), case(2048, compared(1.05, "SLOWER")), case(4096, compared(1.0, "SAME", 0.05))]
    found = gated(summary(*cases), gate(0.02))
    assert not found.held
    assert found.lines == (
        "VIOLATED: batch at decode-2048: time 1.050 [1.045, 1.055], at most 1.02 is allowed",
        "UNDECIDED: batch at decode-4096: time 1.000 [0.950, 1.050], at most 1.02 is allowed",
        "1 of 3 demands held: gate.max_regression=2% gate.undecided=fail",
    )


def test_no_regression_at_all_may_be_allowed():
    assert gated(summary(case(1024, compared(0.99))), gate(0.0)).held
    assert not gated(summary(case(1024, compared(0.999, "SAME"))), gate(0.0)).held


def test_an_arm_that_failed_its_check_violates_whatever_is_let_pass():
    found = gated(summary(case(1024, compared(0.9)), case(2048, None, check=FAILED)), gate(0.01, undecided="pass"))
    assert not found.held
    assert found.lines[0] == "VIOLATED: batch failed its check at decode-2048: output error 0.5 passes 0.0001"


def test_an_arm_without_a_ratio_is_undecided():
    found = gated(summary(case(1024)), gate(0.01))
    assert not found.held and "batch at decode-1024 has no ratio: the arm failed its check" in found.lines[0]
    assert gated(summary(case(1024)), gate(0.01, undecided="pass")).held


@pytest.mark.parametrize(("low", "high", "held"), [(0.99, 1.01, True), (1.004, 1.01, False), (0.99, 0.996, False)])
def test_what_the_control_surely_differs_by_is_allowed_for(low, high, held):
    """An arm that is at the allowance would be beyond it, were the control where it belongs."""
    found = gated(with_control(case(1024, compared(1.0, "SAME", 0.01)), low, high), gate(0.01))
    assert found.held is held
    if not held:
        assert found.lines[0].startswith("UNDECIDED: batch at decode-1024: time 1.000 [0.990, 1.010], at most 1.01")
        assert found.lines[0].endswith("; control differs by 0.4% at least")


def test_a_regression_that_the_control_has_as_well_is_no_violation():
    slow = case(1024, compared(1.05, "SLOWER"))
    assert gated(with_control(slow, 0.99, 1.01), gate(0.01, undecided="pass")).held is False
    assert gated(with_control(slow, 1.05, 1.06), gate(0.01, undecided="pass")).held is True


def with_control(made, low, high):
    control = replace(compared(1.0, "SAME"), low=low, high=high)
    bias, batch = certain_bias(control), made.arms["batch"]
    judged = {metric: replace(one, bias=bias) for metric, one in batch.comparisons.items()}
    arms = made.arms | {
        "batch": replace(batch, comparisons=judged),
        "control": replace(made.arms["control"], comparisons={"tpot": control}),
    }
    return summary(replace(made, arms=arms))


@pytest.mark.parametrize("demand", [{"max_regression": 0.01}, {"require": "faster"}])
def test_what_was_not_seen_is_not_held(demand):
    sound = case(1024, compared(0.9))
    assert gated(summary(sound), gate(**demand)).held
    for found, told in (
        (gated(summary(replace(sound, void="1 of 8; throttled")), gate(**demand)), "sound (1 of 8; throttled)"),
        (gated(summary(case(1024, compared(0.9), fast=False)), gate(**demand)), "batch never took its fast path"),
        (gated(summary(sound), gate(**demand), ["decode-2048"]), "decode-2048 was left out"),
    ):
        assert not found.held
        assert found.lines[0].startswith("UNDECIDED: ") and told in found.lines[0]


def test_a_fast_path_need_not_be_taken_everywhere_nor_be_there():
    cases = [case(1024, compared(0.9)), case(4096, compared(1.0), fast=False)]
    assert gated(summary(*cases), gate(0.01)).held
    other = case(4096, compared(1.0), fast=False)
    other.arms["batch"] = replace(other.arms["batch"], path=FastPath(0, 4, 0, 1, expected=False))
    assert gated(summary(other), gate(0.01)).held


@pytest.mark.parametrize("undecided", ["fail", "pass"])
def test_where_nothing_was_compared_nothing_is_held(undecided):
    bare = case(1024)
    found = gated(summary(replace(bare, arms={"never": bare.arms["never"]})), gate(0.01, undecided=undecided))
    assert not found.held and found.lines[-1].startswith("0 of 0 demands held")


@pytest.mark.parametrize(
    ("verdict", "undecided", "held"),
    [("FASTER", "fail", True), ("SAME", "pass", False), ("SLOWER", "pass", False), ("UNDECIDED", "fail", False),
     ("UNDECIDED", "pass", True)],
)  # fmt: skip
def test_faster_may_be_required(verdict, undecided, held):
    found = gated(summary(case(1024, compared(0.98, verdict, needed=70))), gate(require="faster", undecided=undecided))
    assert found.held is held
    if verdict == "UNDECIDED":
        assert found.lines[0].endswith("FASTER is required; about 70 rounds would decide")


def test_over_several_contexts_the_mean_must_be_faster():
    cases = [case(1024, compared(0.8)), case(4096, compared(1.0, "SAME"))]
    assert not gated(summary(*cases), gate(require="faster")).held
    mean = Overall("decode", "", "batch", compared(0.89))
    assert gated(summary(*cases, overall=(mean,)), gate(require="faster")).held
    slow = Overall("decode", "", "batch", compared(1.0, "SAME"))
    found = gated(summary(*cases, overall=(slow,)), gate(require="faster"))
    assert found.lines[0] == "VIOLATED: batch in decode is SAME, time 1.000 [0.995, 1.005], FASTER is required"


def test_modes_are_gated_one_by_one():
    cases = [case(1024, compared(0.8), mode="warm"), case(1024, compared(1.2, "SLOWER"), mode="cold")]
    mean = Overall("decode", "warm", "batch", compared(0.8))
    found = gated(summary(*cases, overall=(mean,)), gate(require="faster"))
    assert not found.held and found.lines[-1].startswith("1 of 2 demands held")
