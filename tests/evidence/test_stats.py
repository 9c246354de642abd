import warnings

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from scipy import stats as scipy_stats

from pipeline.evidence.stats import (
    MINIMUM_ROUNDS,
    Interval,
    Rule,
    expanded_confidence,
    noise_floor,
    paired_interval,
    verdict,
)
from pipeline.schema import Measure

RULE = Rule(margin=0.02, confidence=0.95, resamples=1000, seed=3)
RUNS = 200
MEASURE = {
    "scope": "stack",
    "rounds": 5,
    "seconds": None,
    "warmup_rounds": 1,
    "control": True,
    "margin": 0.02,
    "confidence": 0.95,
}


def drifting_rounds(random, rounds, noise, effects):
    """Seconds [round] of arms on a machine that wanders by tens of percent, slower by their effect."""
    machine = np.cumsum(random.normal(0, 0.1, rounds)) + 0.3 * np.sin(np.arange(rounds))
    return [np.exp(machine + np.log(effect) + random.normal(0, noise, rounds)) for effect in effects]


def verdicts(rounds, noise, effect, control):
    found = []
    for run in range(RUNS):
        random = np.random.default_rng(run)
        baseline, arm, again = drifting_rounds(random, rounds, noise, [1.0, effect, 1.0])
        floor = noise_floor(paired_interval(again, baseline, RULE)) if control else None
        found.append(verdict(paired_interval(arm, baseline, RULE), floor, RULE.margin))
    return found


@pytest.mark.parametrize(("rounds", "least"), [(5, 0.86), (8, 0.89), (20, 0.92)])
@pytest.mark.parametrize("spiky", [False, True])
def test_the_interval_covers_the_truth_as_often_as_it_claims(rounds, least, spiky):
    covered = 0
    for run in range(RUNS):
        random = np.random.default_rng(run)
        baseline, arm = drifting_rounds(random, rounds, 0.02, [1.0, 0.93])
        if spiky:
            baseline, arm = (seconds * np.exp((random.random(rounds) < 0.1) * 0.3) for seconds in (baseline, arm))
        interval = paired_interval(arm, baseline, RULE)
        covered += interval.low <= 0.93 <= interval.high
    assert least <= covered / RUNS <= 0.995


@pytest.mark.parametrize("rounds", [5, 20])
def test_equal_arms_are_hardly_ever_told_apart(rounds):
    found = verdicts(rounds, noise=0.02, effect=1.0, control=True)
    assert found.count("FASTER") + found.count("SLOWER") <= 0.03 * RUNS


def test_equal_arms_are_the_same_where_the_noise_is_small():
    assert verdicts(20, noise=0.005, effect=1.0, control=True).count("SAME") >= 0.95 * RUNS


@pytest.mark.parametrize(("effect", "expected"), [(0.95, "FASTER"), (1.05, "SLOWER")])
@pytest.mark.parametrize("control", [True, False])
def test_five_percent_are_found(effect, expected, control):
    assert verdicts(20, noise=0.01, effect=effect, control=control).count(expected) >= 0.95 * RUNS


def test_drift_alone_would_hide_what_pairing_finds():
    baseline, arm = drifting_rounds(np.random.default_rng(0), 20, 0.01, [1.0, 0.95])
    assert baseline.std() / baseline.mean() > 0.1
    assert paired_interval(arm, baseline, RULE).high < 0.97


def test_swapping_the_arms_inverts_the_interval():
    baseline, arm = drifting_rounds(np.random.default_rng(1), 9, 0.05, [1.0, 0.9])
    there, back = paired_interval(arm, baseline, RULE), paired_interval(baseline, arm, RULE)
    assert (there.low, there.ratio, there.high) == pytest.approx((1 / back.high, 1 / back.ratio, 1 / back.low))


def test_the_seed_fixes_the_interval():
    baseline, arm = drifting_rounds(np.random.default_rng(2), 9, 0.05, [1.0, 0.9])
    assert paired_interval(arm, baseline, RULE) == paired_interval(arm, baseline, RULE)


@pytest.mark.parametrize("factor", [1.0, 0.9, 1.1])
def test_rounds_that_all_agree_neither_warn_nor_crash(factor):
    baseline = np.full(8, 0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        interval = paired_interval(baseline * factor, baseline, RULE)
        same = paired_interval(baseline, baseline, RULE)
    assert (interval.low, interval.ratio, interval.high) == pytest.approx((factor,) * 3)
    floor = noise_floor(same)
    assert floor == pytest.approx(0, abs=1e-12)
    assert verdict(interval, floor, 0.02) == {1.0: "SAME", 0.9: "FASTER", 1.1: "SLOWER"}[factor]


def test_few_rounds_decide_nothing():
    interval = paired_interval(np.full(4, 0.5), np.full(4, 1.0), RULE)
    assert interval == Interval(0.5, None, None, 4)
    assert noise_floor(interval) is None
    assert verdict(interval, 0.0, 0.02) == "UNDECIDED"
    assert paired_interval(np.full(5, 0.5), np.full(5, 1.0), RULE).high == pytest.approx(0.5)


def test_the_ratio_is_the_geometric_mean_of_paired_rounds():
    interval = paired_interval(np.array([1.0, 8.0]), np.array([2.0, 4.0]), RULE)
    assert interval.ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("low", "high", "noise", "expected"),
    [
        (0.90, 0.95, 0.04, "FASTER"),
        (0.90, 0.97, 0.04, "UNDECIDED"),
        (1.05, 1.10, 0.04, "SLOWER"),
        (1.03, 1.10, 0.04, "UNDECIDED"),
        (0.985, 1.015, 0.04, "SAME"),
        (0.985, 0.995, 0.001, "FASTER"),  # small, and real
        (0.97, 1.01, 0.001, "UNDECIDED"),
        (0.90, 0.97, None, "FASTER"),
        (0.985, 0.995, None, "SAME"),
        (1.03, 1.10, None, "SLOWER"),
        (0.97, 1.01, None, "UNDECIDED"),
    ],
)
def test_rule(low, high, noise, expected):
    assert verdict(Interval((low * high) ** 0.5, low, high, 10), noise, margin=0.02) == expected


def test_noise_is_the_end_further_from_one():
    assert noise_floor(Interval(1.0, 0.8, 1.1, 9)) == pytest.approx(0.25)
    assert noise_floor(Interval(1.1, 1.05, 1.2, 9)) == pytest.approx(0.2)
    assert noise_floor(Interval(0.9, 0.8, 0.95, 9)) == pytest.approx(0.25)


def test_expanded_confidence_tends_to_the_plain_one():
    assert expanded_confidence(0.95, 100_000) == pytest.approx(0.95, abs=1e-4)
    z = scipy_stats.norm.ppf((1 + expanded_confidence(0.95, 5)) / 2)
    assert z == pytest.approx(2.7764 * np.sqrt(5 / 4), rel=1e-4)


def test_the_fewest_resamples_reach_the_tails_of_the_fewest_rounds():
    tail = (1 - expanded_confidence(0.95, MINIMUM_ROUNDS)) / 2
    assert 0.0009 < tail < 0.001
    with pytest.raises(ValidationError, match="greater than or equal to 1000"):
        TypeAdapter(Measure).validate_python(MEASURE | {"resamples": RULE.resamples - 1})
    assert TypeAdapter(Measure).validate_python(MEASURE | {"resamples": RULE.resamples}).resamples == 1000
