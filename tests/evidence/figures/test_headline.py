from dataclasses import replace

from pipeline.evidence.figures.headline import headline
from pipeline.evidence.summary import ArmSummary, CaseSummary, Check, Comparison, FastPath, Overall

GOOD, BAD = Check(True, 0.0, 1.0, "fine"), Check(False, 2.0, 1.0, "output error 2 passes 1")


def comparison(verdict, ratio=1.0, metric="tpot", rounds=9, needed=None):
    bounds = (None, None) if rounds < 5 else (ratio, ratio)
    return Comparison(metric, ratio, *bounds, verdict, 0.01, 0.02, 0.95, rounds, needed)


def arm(name, check=GOOD, skipped=0, expected=False, **found):
    comparisons = {made.metric: made for made in found.values()}
    return ArmSummary(name, check, {}, {}, FastPath(skipped, 8, int(skipped > 0), 2, expected), comparisons)


def case(context, *arms, workload="decode", primary="tpot"):
    by_name = {arm.arm: arm for arm in (arm("never"), *arms)}
    return CaseSummary(f"{workload}-{context}", workload, context, "d", "stack", primary, by_name, 4, 2, 9, 1)


def batch(verdict, ratio=1.0, skipped=8, **more):
    return arm("batch", skipped=skipped, expected=True, primary=comparison(verdict, ratio, **more))


def test_verdicts_by_context_with_their_sizes():
    cases = [
        case(1024, batch("FASTER", 0.94)),
        case(2048, batch("FASTER", 0.959)),
        case(2052, batch("SAME", skipped=0)),
        case(4096, batch("SAME", skipped=0)),
    ]
    assert headline(cases, "never", None) == (
        "batch against never in decode (TPOT): FASTER by 4.1 % to 6.0 % up to context 2048, "
        "SAME within 2 % from context 2052 on",
        "batch took its fast path in 2 of 8 timed steps, in 2 of 4 cases",
    )


def test_a_fast_path_that_never_fired_comes_first():
    cases = [case(2052, batch("SAME", skipped=0)), case(4096, batch("SAME", skipped=0))]
    assert headline(cases, "never", None) == (
        "the fast path of batch NEVER FIRED in 2 cases",
        "batch against never in decode (TPOT): SAME within 2 % at every context",
    )


def test_an_arm_without_a_fast_path_is_not_blamed():
    cases = [case(8, arm("other", primary=comparison("SLOWER", 1.1)))]
    [told] = headline(cases, "never", None)
    assert told == "other against never in decode (TPOT): SLOWER by 10.0 % at context 8"


def test_failed_checks_come_before_verdicts_and_name_the_cases():
    cases = [case(8, arm("other", check=BAD)), case(16, arm("other", primary=comparison("UNDECIDED", needed=120)))]
    assert headline(cases, "never", None) == (
        "other FAILED its check in decode-8 (output error 2 passes 1)",
        "other against never in decode (TPOT): UNDECIDED (9 rounds, not decidable at this noise) at context 16",
    )
    everywhere = headline([case(8, arm("other", check=BAD))], "never", None)
    assert everywhere == ("other FAILED its check everywhere (output error 2 passes 1)",)


def test_workloads_have_their_own_metric_and_the_control_is_silent():
    control = arm("control", primary=comparison("SAME"))
    cases = [
        case(8, batch("UNDECIDED", rounds=4), control),
        case(8, batch("FASTER", 0.5, metric="ttft"), control, workload="prefill", primary="ttft"),
    ]
    assert headline(cases, "never", "control") == (
        "batch against never in decode (TPOT): UNDECIDED (4 rounds are too few for an interval) at context 8",
        "batch against never in prefill (TTFT): FASTER by 50.0 % at context 8",
        "batch took its fast path in 2 of 4 timed steps, in 2 of 2 cases",
    )


def test_one_round_is_one():
    (line,) = headline([case(8, arm("other", primary=comparison("UNDECIDED", rounds=1)))], "never", None)
    assert "UNDECIDED (1 round is too few for an interval)" in line


def test_contexts_out_of_order_are_listed():
    found = {8: "SAME", 16: "FASTER", 32: "SAME", 64: "FASTER"}
    cases = [case(context, batch(verdict, 0.9)) for context, verdict in found.items()]
    assert "SAME within 2 % at contexts 8, 32, FASTER by 10.0 % at contexts 16, 64" in headline(cases, "never", None)[0]


def test_a_baseline_alone_is_not_compared():
    assert headline([case(8)], "never", None) == ("only never was measured, there is nothing to compare",)


def test_a_baseline_alone_that_failed_was_not_measured():
    alone = case(8)
    assert headline([replace(alone, arms={"never": arm("never", check=BAD)})], "never", None) == (
        "never FAILED its check everywhere (output error 2 passes 1)",
        "never, the baseline, failed and was the only arm, there is nothing to compare",
    )


def test_undecided_contexts_name_the_most_rounds_that_any_of_them_needs():
    cases = [
        case(8, batch("UNDECIDED", needed=60)),
        case(16, batch("UNDECIDED", needed=90)),
        case(32, batch("FASTER", 0.9)),
    ]
    assert "UNDECIDED (9 rounds, 90 would decide) up to context 16, FASTER" in headline(cases, "never", None)[0]
    far = [case(8, batch("UNDECIDED", needed=91)), *cases[1:]]
    assert "UNDECIDED (9 rounds, not decidable at this noise) up to context 16" in headline(far, "never", None)[0]
    cases.append(case(64, batch("UNDECIDED")))
    assert (
        "UNDECIDED (9 rounds, and more of the same would not decide) at contexts" in headline(cases, "never", None)[0]
    )


def test_the_mean_over_contexts_follows_the_verdicts_of_its_workload():
    mean = Comparison("tpot", 0.95, 0.94, 0.961, "FASTER", 0.01, 0.02, 0.95, 18)
    over = [Overall("decode", "", "batch", mean), Overall("decode", "", "control", mean)]
    control = arm("control", primary=comparison("SAME"))
    cases = [case(8, batch("FASTER", 0.9), control), case(16, batch("SAME"), control)]
    assert headline(cases, "never", "control", over) == (
        "batch against never in decode (TPOT): FASTER by 10.0 % at context 8, SAME within 2 % at context 16",
        "batch, all contexts of decode: FASTER, time -5.0 % [-6.0, -3.9] (geometric mean)",
        "batch took its fast path in 2 of 4 timed steps, in 2 of 2 cases",
    )


def test_a_control_that_surely_differs_comes_before_what_was_found():
    control = arm(
        "control", primary=replace(comparison("SLOWER", 1.013), low=1.009, high=1.016, bias=0.009, noise=0.016)
    )
    quiet = arm("control", primary=comparison("SAME"))
    cases = [case(8, batch("FASTER", 0.9), control), case(16, batch("FASTER", 0.9), quiet)]
    mean = Comparison("tpot", 1.006, 1.004, 1.008, "UNDECIDED", 0.008, 0.02, 0.95, 18, bias=0.004)
    found = headline(cases, "never", "control", [Overall("decode", "", "control", mean)])
    assert found[0] == (
        "never measured twice SURELY DIFFERS from itself, at decode-8 (TPOT) by 0.9 to 1.6 %, "
        "over all contexts of decode (TPOT) by 0.4 to 0.8 %: so may any arm"
    )
    assert found[1].startswith("batch against never")
    assert not any("SURELY" in clause for clause in headline(cases[1:], "never", "control"))


def test_a_case_with_too_few_undisturbed_rounds_comes_before_what_it_found():
    case_ = replace(case(8, batch("FASTER", 0.9)), void="2 of 80; throttled: power cap")
    first, second, _ = headline([case_], "never", None)
    assert first == "TOO FEW ROUNDS of decode-8 were free of disturbance (2 of 80; throttled: power cap)"
    assert second.startswith("batch against never")
