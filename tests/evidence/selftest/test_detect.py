"""The self test on simulated machines: it must pass where the instrument is right and fail where it is not."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.evidence.detected import Detection
from pipeline.evidence.selftest import detect as module
from pipeline.evidence.selftest.detect import Delay, Judged, assess, cut, detect, only, sentence, truth
from pipeline.evidence.stats import Rule
from pipeline.evidence.summarise import summarise
from pipeline.evidence.summary import Comparison
from tests.evidence.selftest.recordings import ARMS, CASE, CHECKS, DELAYS, STEP, STEPS, recording

RULE = Rule(margin=0.02, confidence=0.95, resamples=1000, seed=0, block_rounds=4)
RUNS, ROUNDS = 100, 20


def judged(noise: float, must_find: float, rule: Rule = RULE, **changes):
    samples = recording(RUNS * ROUNDS, noise, **changes)
    found = detect(CASE, STEPS, samples, rule, "control", DELAYS, ROUNDS)
    return assess("decode-102", "emit", STEP, ROUNDS, must_find, found)


def test_a_quiet_machine_finds_one_percent_in_spite_of_drift():
    found = judged(noise=0.002, must_find=0.01)
    assert found.passed, sentence(found)
    assert (found.runs, found.rounds, found.smallest) == (RUNS, ROUNDS, 0.01)
    same, one, five = found.detections
    assert (same.faster, same.slower) == (0, 0)
    assert one.slower >= 90 and one.faster == 0
    assert five.slower == RUNS
    for detection in found.detections:
        assert detection.faster + detection.slower + detection.same + detection.undecided == RUNS
        assert detection.covered >= 90
        assert detection.estimate == pytest.approx(detection.truth, abs=0.001)
        assert 0 < detection.half_width < 0.005
    [told] = sentence(found)
    assert told == "the self test PASSED all 6 bars: the smallest delay that this machine finds is 1 % of a step"


def test_a_noisy_machine_finds_five_percent_but_not_one():
    found = judged(noise=0.012, must_find=0.05)
    assert found.passed, sentence(found)
    asked_too_much = assess("decode-102", "emit", STEP, ROUNDS, 0.01, found.detections)
    assert asked_too_much.smallest == 0.05
    assert not asked_too_much.passed
    [missed] = [bar for bar in asked_too_much.bars if not bar.held]
    assert (missed.what, missed.needed, missed.of) == ("a delay of 1 % SLOWER", 90, 100)
    first, second = sentence(asked_too_much)
    assert first.endswith("MISSED 1 of 6 bars: the smallest delay that this machine finds is 5 % of a step")
    assert second.startswith(f"{missed.what} in ")


def test_early_stopping_is_part_of_what_is_tested():
    sequential = replace(RULE, planned_blocks=10)
    samples = recording(20 * 40, 0.004)
    found = detect(CASE, STEPS, samples, sequential, "control", DELAYS, 40)
    whole = detect(CASE, STEPS, samples, RULE, "control", DELAYS, 40)
    assert found[2].slower == whole[2].slower == 20
    assert found[2].half_width > 1.5 * whole[2].half_width, "a run that is decided ends early, with a wider interval"
    assert assess("c", "emit", STEP, 40, 0.05, found).passed


@pytest.mark.parametrize("planned_blocks", [None, 6])
def test_a_run_is_judged_as_any_run_is(planned_blocks):
    """There is no second way: the verdicts and intervals are those of the summary of a case."""
    rule = replace(RULE, planned_blocks=planned_blocks)
    samples = replace(recording(25, 0.004), void=("", "", "throttled") + ("",) * 22)
    found = detect(CASE, STEPS, samples, rule, "control", DELAYS, 24)
    for delay, one in zip(DELAYS, found, strict=True):
        pair = only(samples, ("plain", delay.arm, "control"))
        case = summarise(CASE, STEPS, pair, {arm: CHECKS[arm] for arm in pair.arms}, rule, "control")
        right = case.arms[delay.arm].comparisons[case.primary]
        assert one.estimate == pytest.approx(right.ratio)
        assert one.half_width == pytest.approx((right.high - right.low) / 2)
        assert getattr(one, right.verdict.lower()) == one.runs == 1


def test_a_difference_that_nobody_put_in_fails_it():
    found = judged(noise=0.002, must_find=0.05, added=0.01 * STEP)
    missed = {bar.what for bar in found.bars if not bar.held}
    holds = "the interval with the noise floor holds the truth of A against A"
    assert {"A against A SAME or UNDECIDED", holds} <= missed


def test_what_the_place_of_caches_costs_is_told_from_an_effect_by_the_control():
    """Every arm is shifted for good. No interval knows, the control's shift is the only sign of it."""
    found = judged(noise=0.002, must_find=0.05, placed=(0.0, 0.008, -0.005, 0.006, -0.004))
    assert found.passed, sentence(found)
    for one in found.detections:
        assert one.covered >= 90 and one.covered_alone < 50
        assert 0.008 < one.noise < 0.012
    same, _, five = found.detections
    assert same.faster + same.slower == 0 and five.slower == RUNS


def test_a_shift_that_the_control_does_not_have_fails_it():
    found = judged(noise=0.002, must_find=0.05, placed=(0.0, 0.0, 0.01, 0.0, 0.0))
    missed = [bar.what for bar in found.bars if not bar.held]
    assert "A against A SAME or UNDECIDED" in missed and any("holds the truth of A" in what for what in missed)


def test_a_delay_that_the_control_differs_as_much_by_is_not_found():
    found = judged(noise=0.002, must_find=0.05, placed=(0.0, 0.06, 0.0, 0.0, 0.0))
    missed = [bar.what for bar in found.bars if not bar.held]
    assert missed == ["a delay of 5 % SLOWER"]
    assert all(one.faster == 0 and one.same == 0 for one in found.detections)


def test_the_interval_is_widened_by_the_noise_floor_at_both_ends_and_by_nothing_else():
    made = Comparison("tpot", 1.0, 0.99, 1.01, "SAME", 0.02, 0.02, 0.95, 20)
    for truth_, covers, alone in [
        (1.0, True, True),
        (0.991, True, True),
        (0.989, True, False),
        (0.99 / 1.0199, True, False),
        (0.99 / 1.0201, False, False),
        (1.01 * 1.0199, True, False),
        (1.01 * 1.0201, False, False),
    ]:
        run = Judged(made, truth_)
        assert (run.covers, run.covers_alone) == (covers, alone), truth_
    assert not Judged(replace(made, low=None, high=None), 1.0).covers
    assert not Judged(replace(made, noise=None), 0.989).covers


def test_intervals_that_are_too_narrow_fail_it():
    found = judged(noise=0.02, must_find=0.05, rule=replace(RULE, confidence=0.1))
    assert any("holds the truth" in bar.what for bar in found.bars if not bar.held)


def test_the_truth_is_what_the_delay_makes_of_the_baselines_own_rounds():
    samples = recording(4, 0.0)
    seconds = np.array([[9.0, 0.02, 0.04], [9.0, 0.03, 0.05], [9.0, 7.0, 7.0], [9.0, 0.01, 0.01]])
    samples = replace(
        samples, seconds=np.repeat(seconds[:, :, None], len(ARMS), axis=2), void=("", "", "throttled", "")
    )
    found = truth(CASE, STEPS, samples, "tpot", Delay("delay", 0.1, 0.003))
    assert found == pytest.approx(((0.033 / 0.03) * (0.043 / 0.04) * (0.013 / 0.01)) ** (1 / 3))
    assert truth(CASE, STEPS, samples, "tpot", Delay("same", 0.0, 0.0)) == 1.0


def test_runs_are_consecutive_and_hold_equally_many_rounds_that_count():
    samples = recording(11, 0.01)
    void = tuple("throttled" if number in (1, 5) else "" for number in range(11))
    runs = cut(replace(samples, void=void), 3)
    assert [len(run.seconds) for run in runs] == [4, 4, 3]
    assert [int(run.counts.sum()) for run in runs] == [3, 3, 3]
    np.testing.assert_array_equal(np.concatenate([run.seconds for run in runs]), samples.seconds)
    assert [len(run.seconds) for run in cut(samples, 4)] == [4, 4], "what is left over is in none"


def test_only_the_arms_of_a_pair_take_part():
    samples = recording(3, 0.01)
    pair = only(samples, ("plain", "delay-5", "control"))
    assert pair.arms == ("plain", "delay-5", "control")
    np.testing.assert_array_equal(pair.seconds, samples.seconds[:, :, [0, 4, 1]])
    assert pair.skipped.shape == (len(STEPS), 3)


def detection(asked: float, slower: int, faster: int = 0, covered: int = 100) -> Detection:
    undecided = 100 - slower - faster
    return Detection("arm", asked, 0.0, 1 + asked, 1 + asked, 0.001, faster, slower, 0, undecided, covered, 100)


@pytest.mark.parametrize(
    ("found", "passed"),
    [
        (detection(0.0, 5), True),
        (detection(0.0, 3, faster=3), False),
        (detection(0.0, 0, covered=89), False),
        (detection(0.05, 90), True),
        (detection(0.05, 89), False),
        (detection(0.05, 100, covered=90), True),
        (detection(0.05, 100, covered=89), False),
        (detection(0.02, 0), True),
        (detection(0.02, 0, faster=6), False),
    ],
)
def test_the_bars(found, passed):
    assert assess("c", "emit", STEP, 20, 0.05, [found]).passed is passed


@pytest.mark.parametrize(
    ("slower", "smallest"), [((0, 0, 95), 0.05), ((0, 95, 100), 0.02), ((95, 80, 100), 0.05), ((95, 95, 80), None)]
)
def test_the_smallest_delay_is_one_from_which_on_all_are_found(slower, smallest):
    found = [detection(asked, count) for asked, count in zip((0.01, 0.02, 0.05), slower, strict=True)]
    assert assess("c", "emit", STEP, 20, 0.05, [detection(0.0, 0), *found]).smallest == smallest


def test_the_shares_are_those_that_were_promised():
    assert (module.QUIET, module.FOUND, module.COVERED) == (0.95, 0.9, 0.9)
