from dataclasses import replace

import pytest

from pipeline.evidence.figures.shifted import noisier, shifted, widened
from pipeline.evidence.summary import ArmSummary, CaseSummary, Check, Comparison, FastPath

CHECK, PATH = Check(True, 0.0, 1.0, ""), FastPath(0, 0, 0, 0, False)


def comparison(low, high, verdict, noise, bias=0.0):
    return Comparison("tpot", (low * high) ** 0.5 if low else 1.0, low, high, verdict, noise, 0.02, 0.95, 40, bias=bias)


def case(context, arm, control, workload="decode", mode=""):
    arms = {
        name: ArmSummary(name, CHECK, {}, {}, PATH, found)
        for name, found in (("base", {}), ("arm", {"tpot": arm}), ("control", {"tpot": control}))
    }
    return CaseSummary(f"{workload}-{context}", workload, context, "d", "stack", "tpot", arms, 1, 1, 40, 2, mode)


QUIET = comparison(0.9999, 1.0001, "SAME", 0.0001)
SURE = comparison(0.9984, 0.9993, "SAME", 0.0016, bias=0.0007)


def arms_of(cases):
    return [one.arms["arm"].comparisons["tpot"] for one in shifted(cases, "control")]


def test_what_the_control_surely_did_elsewhere_is_no_gain():
    """As seen: 43 layers whose shortcut never fired were FASTER by 0.1 % at a noise floor of 0.01 %."""
    gain = comparison(0.9988, 0.9992, "FASTER", 0.0001)
    here, there = arms_of([case(4096, gain, QUIET), case(1024, gain, SURE)])
    assert (here.verdict, here.noise, here.bias) == ("SAME", 0.0016, 0.0007)
    assert (there.verdict, there.noise, there.bias) == ("SAME", 0.0016, 0.0007)
    assert here.ratio == gain.ratio and (here.low, here.high) == (gain.low, gain.high)


def test_a_gain_beyond_it_stays_and_a_loss_too():
    gain, loss = comparison(0.90, 0.91, "FASTER", 0.0001), comparison(1.05, 1.06, "SLOWER", 0.0001)
    verdicts = [one.verdict for one in arms_of([case(1, gain, QUIET), case(2, loss, QUIET), case(3, gain, SURE)])]
    assert verdicts == ["FASTER", "SLOWER", "FASTER"]


def test_within_neither_floor_nor_margin_it_is_undecided_and_no_rounds_are_promised():
    far = comparison(1.01, 1.05, "UNDECIDED", 0.06, bias=0.01)
    gain = comparison(0.95, 0.96, "FASTER", 0.001)
    open_ = replace(comparison(0.970, 1.001, "UNDECIDED", 0.001), rounds_needed=200)
    first, second, _ = arms_of([case(1, gain, QUIET), case(2, open_, QUIET), case(3, gain, far)])
    assert (first.verdict, first.rounds_needed) == ("UNDECIDED", None)
    assert (second.verdict, second.rounds_needed, second.noise) == ("UNDECIDED", None, 0.06)


def test_a_context_whose_control_has_no_interval_has_the_noise_of_the_others_or_the_margin():
    gain = comparison(0.95, 0.96, "FASTER", None)
    unknown = comparison(None, None, "UNDECIDED", None)
    for far, verdict, noise in (
        (comparison(1.01, 1.06, "UNDECIDED", 0.06, bias=0.01), "UNDECIDED", 0.06),
        (SURE, "FASTER", 0.02),
    ):
        here, _ = arms_of([case(1, gain, unknown), case(2, gain, far)])
        assert (here.verdict, here.noise) == (verdict, noise)


def test_it_counts_for_the_mean_over_contexts_too():
    """As seen: a shortcut -0.7 % over eight contexts, two of which had a control surely off, by up to 0.67 %."""
    gain = comparison(0.992, 0.994, "FASTER", 0.0019)
    off = comparison(0.9933, 0.9990, "SAME", 0.0067, bias=0.0010)
    assert widened(gain, [off]).verdict == "SAME" and widened(gain, []) == gain
    assert noisier(QUIET, [off]) == replace(QUIET, noise=0.0067)
    assert noisier(off, []) == off


@pytest.mark.parametrize(("workload", "mode"), [("prefill", ""), ("decode", "eager")])
def test_other_workloads_and_modes_have_floors_of_their_own(workload, mode):
    gain = comparison(0.9988, 0.9992, "FASTER", 0.0001)
    cases = [case(4096, gain, QUIET), case(1024, gain, SURE, workload, mode)]
    assert [one.verdict for one in arms_of(cases)] == ["FASTER", "SAME"]


def test_a_control_that_does_not_surely_differ_changes_nothing_and_none_is_judged_by_others():
    wide = comparison(0.99, 1.01, "SAME", 0.0101)
    gain = comparison(0.9988, 0.9992, "FASTER", 0.0001)
    cases = [case(1, gain, QUIET), case(2, gain, wide)]
    assert shifted(cases, "control") == cases and shifted(cases, None) == cases
    [first, _] = shifted([case(1, gain, QUIET), case(2, gain, SURE)], "control")
    assert first.arms["control"].comparisons["tpot"] == replace(QUIET, noise=0.0016), "what is shown is what counts"
