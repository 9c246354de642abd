from dataclasses import replace

import numpy as np
import pytest

from pipeline.evidence.figures.compare import Roles
from pipeline.evidence.samples import AT_POWER_CAP, Samples
from pipeline.evidence.stats import Rule
from pipeline.evidence.summarise import MINIMUM_SAMPLES, decided, summarise
from pipeline.evidence.summary import Check, FastPath
from pipeline.work.schedule import schedule
from pipeline.work.workload import Case, Request

RULE = Rule(margin=0.02, confidence=0.95, resamples=1000, seed=0)
PASSED = Check(True, 1e-6, 1e-4, "output error 1e-06")
FAILED = Check(False, 0.5, 1e-4, "output error 0.5 passes 0.0001")
ARMS = ("never", "batch", "control")


def decode(output_len=3, rounds=10, effect=0.9, noise=0.002, scope="stack", arms=ARMS, skipped=4):
    requests = tuple(Request(0.0, 99, 100, output_len) for _ in range(4))
    steps = schedule(requests, max_num_seqs=4, max_num_batched_tokens=64, chunked_prefill=True)
    random = np.random.default_rng(0)
    machine = np.exp(random.normal(0, 0.2, (rounds, 1, 1)))
    cost = np.array([1.0, effect, 1.0])[: len(arms)]
    seconds = 0.01 * machine * cost * np.exp(random.normal(0, noise, (rounds, len(steps), len(arms))))
    rows = np.full(len(steps), 4)
    taken = np.zeros((len(steps), len(arms)), dtype=int)
    taken[:-1, 1] = skipped
    samples = Samples(
        case="decode-102",
        workload="decode",
        context=102,
        digest="abc",
        scope=scope,
        arms=arms,
        shortcut=(False, True, False)[: len(arms)],
        seconds=seconds,
        order=np.zeros(seconds.shape, dtype=int),
        rows=rows,
        skipped=taken,
        scorable=rows,
        started=0.0,
        warmup_rounds=2,
    )
    return Case("decode-102", "decode", 99 + output_len, requests, "abc"), steps, samples


def summary_of(case, steps, samples, control="control", failed=()):
    checks = {arm: FAILED if arm in failed else PASSED for arm in samples.arms}
    return summarise(case, steps, samples, checks, RULE, control)


def test_a_true_effect_is_found_in_every_metric_with_its_noise_floor():
    summary = summary_of(*decode())
    assert summary.primary == "tpot"
    assert (summary.requests, summary.steps, summary.rounds, summary.warmup_rounds) == (4, 3, 10, 2)
    assert summary.tokens == 4  # of a step: one of each request
    arm = summary.arms["batch"]
    assert set(arm.comparisons) == set(summary.judged) == {"tpot"}
    assert set(arm.ratios) == {"ttft", "itl", "e2el", "duration"}
    assert list(arm.ratios.values()) == pytest.approx([0.9] * 4, abs=0.004)
    for name, comparison in arm.comparisons.items():
        assert comparison.metric == name
        assert comparison.verdict == "FASTER"
        assert comparison.ratio == pytest.approx(0.9, abs=0.004)
        assert comparison.low < comparison.ratio < comparison.high < 0.91
        assert 0 < comparison.noise < 0.01
        assert (comparison.margin, comparison.confidence, comparison.rounds) == (0.02, 0.95, 10)
    assert summary.arms["control"].comparisons["tpot"].verdict == "SAME"
    assert summary.arms["never"].comparisons == {}


def test_metrics_are_those_of_the_raw_samples():
    case, steps, samples = decode()
    arm = summary_of(case, steps, samples).arms["batch"]
    assert arm.metrics["mean_ttft_ms"] == pytest.approx(samples.seconds[:, 0, 1].mean() * 1e3)
    assert arm.metrics["mean_tpot_ms"] == pytest.approx(samples.seconds[:, 1:, 1].mean() * 1e3)
    assert arm.metrics["output_throughput"] == pytest.approx(4 * 3 * 10 / samples.seconds[:, :, 1].sum())
    assert arm.undefined == {
        "p99_ttft_ms": "40 samples, 100 are needed",
        "p99_tpot_ms": "40 samples, 100 are needed",
        "p99_itl_ms": "80 samples, 100 are needed",
        "p99_e2el_ms": "40 samples, 100 are needed",
    }


def test_an_arm_that_failed_its_check_gets_no_number():
    summary = summary_of(*decode(), failed=["batch"])
    arm = summary.arms["batch"]
    assert (arm.metrics, arm.comparisons) == ({}, {})
    assert set(arm.undefined) >= {"mean_tpot_ms", "output_throughput", "p99_ttft_ms", "ratio_tpot", "ratio_duration"}
    assert set(arm.undefined.values()) == {"the arm failed its check: output error 0.5 passes 0.0001"}
    assert summary.arms["control"].comparisons["tpot"].verdict == "SAME"


def test_without_a_sound_baseline_nothing_is_compared():
    arm = summary_of(*decode(), failed=["never"]).arms["batch"]
    assert arm.comparisons == {}
    assert arm.undefined["ratio_tpot"] == "the baseline failed its check"
    assert arm.metrics["mean_tpot_ms"] > 0


@pytest.mark.parametrize("control", [None, "control"])
def test_without_a_sound_control_there_is_no_noise_floor(control):
    arms = ARMS if control else ARMS[:2]
    summary = summary_of(*decode(arms=arms), control=control, failed=["control"])
    comparison = summary.arms["batch"].comparisons["tpot"]
    assert comparison.noise is None
    assert comparison.verdict == "FASTER"


def test_one_output_token_is_judged_by_ttft():
    summary = summary_of(*decode(output_len=1))
    assert summary.primary == "ttft"
    arm = summary.arms["batch"]
    assert (set(arm.comparisons), set(arm.ratios)) == ({"ttft"}, {"e2el", "duration"})
    assert arm.undefined["mean_tpot_ms"] == "no request brought two tokens"


def test_a_stage_has_step_times_only():
    case, steps, samples = decode(scope="locate")
    summary = summary_of(case, steps, samples)
    assert (summary.primary, summary.scope) == ("step", "locate")
    arm = summary.arms["batch"]
    assert set(arm.metrics) == {"mean_step_us", "median_step_us", "std_step_us"}
    assert arm.metrics["median_step_us"] == pytest.approx(np.median(samples.seconds[:, :, 1]) * 1e6)
    assert (set(arm.comparisons), arm.ratios) == ({"step"}, {})
    assert arm.comparisons["step"].verdict == "FASTER"


def test_few_rounds_leave_the_ratio_and_no_interval():
    comparison = summary_of(*decode(rounds=4)).arms["batch"].comparisons["tpot"]
    assert (comparison.low, comparison.high, comparison.noise, comparison.verdict) == (None, None, None, "UNDECIDED")
    assert comparison.ratio == pytest.approx(0.9, abs=0.005)


def test_a_clock_that_stands_still_gives_a_reason():
    case, steps, samples = decode()
    samples.seconds[3, :, 1] = 0.0
    arm = summary_of(case, steps, samples).arms["batch"]
    assert arm.comparisons == {}
    assert arm.undefined["ratio_tpot"] == "the clock saw no time pass in a round"


def test_where_prompts_are_read_ttft_is_judged_beside_tpot():
    case, steps, samples = decode()
    requests = (replace(case.requests[0], cached_len=90), *case.requests[1:])
    summary = summary_of(replace(case, requests=requests), steps, samples)
    assert (summary.primary, summary.judged) == ("tpot", ("ttft", "tpot"))
    arm = summary.arms["batch"]
    assert set(arm.comparisons) == {"ttft", "tpot"} and set(arm.ratios) == {"itl", "e2el", "duration"}
    assert arm.comparisons["ttft"].verdict == "FASTER"


def test_late_steps_are_those_of_rounds_that_count():
    case, steps, samples = decode(rounds=12)
    samples = replace(samples, late=(0, 2, 0, 7, *[0] * 7, 1))
    assert summary_of(case, steps, samples).late == 10
    void = tuple("throttled" if number == 3 else "" for number in range(12))
    assert summary_of(case, steps, replace(samples, void=void)).late == 3
    assert summary_of(*decode()).late == 0


def test_proof_of_path():
    arms = summary_of(*decode()).arms
    assert arms["batch"].path == FastPath(4, 8, 1, 2, expected=True)
    assert arms["never"].path == FastPath(0, 8, 0, 2, expected=False)


def test_what_is_counted_beside_a_metric_is_of_its_steps():
    """The first step brings the first token: of TTFT, not of TPOT."""
    case, steps, samples = decode()
    batch = summary_of(case, steps, samples).arms["batch"]
    assert batch.paths == {"tpot": batch.path}
    rate = 4 * 2 * 10 / samples.seconds[:, 1:, 1].sum()
    assert batch.metrics["tpot_step_throughput"] == pytest.approx(rate)
    first = summary_of(*decode(output_len=1)).arms["batch"]
    assert (first.path.fast_steps, first.path.steps) == (0, 1)


def test_minimum_samples_name_what_they_guard():
    assert MINIMUM_SAMPLES == {"mean": 1, "median": 1, "std": 2, "p99": 100, "interval": 5}


def test_the_mean_of_an_arm_has_an_interval_that_holds_it():
    summary = summary_of(*decode(), failed=("batch",))
    low, high = summary.arms["never"].intervals["tpot"]
    assert low < summary.arms["never"].metrics["mean_tpot_ms"] / 1e3 < high
    assert high / low < 1.5
    assert summary.arms["batch"].intervals == {}


def test_an_arm_that_could_not_run_is_told_and_the_others_keep_their_numbers():
    case, steps, samples = decode()
    checks = {"broken": Check(False, float("nan"), 1e-4, "could not run: RuntimeError: no", ran=False)}
    summary = summarise(case, steps, samples, checks | dict.fromkeys(ARMS, PASSED), RULE, "control")
    assert summary.arms["broken"].metrics == {}
    assert "no" in summary.arms["broken"].undefined["mean_tpot_ms"]
    assert summary.arms["broken"].path == FastPath(0, 0, 0, 0, expected=False)
    assert summary.arms["batch"].metrics["mean_tpot_ms"] > 0
    assert summary.arms["batch"].undefined["ratio_tpot"] == "the baseline failed its check"


@pytest.mark.parametrize(
    ("scope", "output_len", "primary"), [("stack", 3, "tpot"), ("stack", 1, "ttft"), ("topk", 3, "step")]
)
def test_a_case_in_which_no_arm_could_run_keeps_its_metric(scope, output_len, primary):
    case, steps, samples = decode(output_len=output_len, scope=scope, arms=("never", "batch"))
    none = replace(
        samples,
        arms=(),
        shortcut=(),
        **{name: getattr(samples, name)[..., :0] for name in ("seconds", "order", "skipped")},
    )
    summary = summarise(case, steps, none, dict.fromkeys(ARMS, FAILED), RULE, "control")
    assert summary.primary == primary
    assert all((arm.metrics, arm.comparisons) == ({}, {}) for arm in summary.arms.values())


def test_void_rounds_are_in_no_figure():
    case, steps, samples = decode(rounds=12)
    samples.seconds[3, :, 1] *= 5
    void = tuple("throttled" if number == 3 else "" for number in range(12))
    found = summary_of(case, steps, replace(samples, void=void))
    kept = replace(samples, seconds=np.delete(samples.seconds, 3, axis=0))
    assert (found.rounds, found.void) == (11, "")
    assert found.arms["batch"] == summary_of(case, steps, kept).arms["batch"]
    assert found.arms["batch"] != summary_of(case, steps, samples).arms["batch"]


def test_where_all_rounds_are_void_all_count_and_the_reason_is_told():
    case, steps, samples = decode(rounds=6)
    found = summary_of(case, steps, replace(samples, void=("throttled",) * 3 + ("compiled k",) * 3))
    assert (found.rounds, found.void) == (6, "0 of 6; throttled, compiled k")
    assert found.arms == summary_of(case, steps, samples).arms


def test_a_case_at_the_power_cap_nearly_always_is_not_void():
    case, steps, samples = decode(rounds=6)
    capped = replace(samples, void=(AT_POWER_CAP,) * 6, least_sound=5)
    assert summary_of(case, steps, capped) == summary_of(case, steps, samples)
    nearly = replace(samples, void=("",) + (AT_POWER_CAP,) * 5, least_sound=5)
    assert summary_of(case, steps, nearly) == summary_of(case, steps, samples)
    some = replace(samples, void=("", "") + (AT_POWER_CAP,) * 4, least_sound=5)
    assert summary_of(case, steps, some).void == f"2 of 6; {AT_POWER_CAP}"
    hot = replace(samples, void=("throttled",) + (AT_POWER_CAP,) * 5, least_sound=5)
    assert summary_of(case, steps, hot).void == f"0 of 6; throttled, {AT_POWER_CAP}"


@pytest.mark.parametrize(
    ("sound", "counted", "void"), [(5, 5, ""), (4, 12, "4 of 12; throttled"), (1, 12, "1 of 12; throttled")]
)
def test_where_too_few_rounds_are_sound_all_count_and_it_is_told(sound, counted, void):
    """One sound block would give no interval, though none at all gives one."""
    case, steps, samples = decode(rounds=12)
    reasons = ("",) * sound + ("throttled",) * (12 - sound)
    found = summary_of(case, steps, replace(samples, void=reasons, least_sound=5))
    assert (found.rounds, found.void) == (counted, void)
    assert found.arms["batch"].comparisons["tpot"].low is not None


def test_outliers_are_counted_and_stay():
    case, steps, samples = decode(rounds=20)
    quiet = samples.seconds / samples.seconds[:, :1, :1]
    quiet[7, :, 2] *= 1.5
    found = summary_of(case, steps, replace(samples, seconds=quiet))
    assert found.outliers == {"never": 0, "batch": 0, "control": 1}
    assert found.arms["control"].metrics["mean_tpot_ms"] == pytest.approx(quiet[:, 1:, 2].mean() * 1e3)


def test_the_clock_is_told_where_it_is_known():
    case, steps, samples = decode()
    assert summary_of(case, steps, samples).clock_mhz is None
    assert summary_of(case, steps, replace(samples, clock_mhz=1980.0)).clock_mhz == 1980.0


def test_a_case_is_decided_at_a_planned_look_by_the_rounds_that_count():
    rule, roles = replace(RULE, block_rounds=2, planned_blocks=20), Roles("never", "control")

    def ends(samples):
        return decided(*decode()[:2], roles, rule, samples)

    ten = decode(rounds=10)[2]
    assert ends(ten)
    assert not ends(replace(ten, void=("", "") * 4 + ("throttled",) * 2))
    assert not ends(replace(ten, void=("throttled",) * 10))
    assert not ends(decode(rounds=12)[2]), "no look is planned there"
    assert not ends(decode(rounds=10, noise=0.3)[2])
    summary = summarise(*decode()[:2], ten, dict.fromkeys(ARMS, PASSED), rule, "control")
    assert summary.arms["batch"].comparisons["tpot"].confidence > 0.99
