"""Intervals and verdicts against a truth that is known, on simulated machines."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from pipeline.evidence.figures.compare import Roles, case_confidence, comparison, settled
from pipeline.evidence.stats import Rule, final_confidence, look_confidence, looks, paired_interval
from tests.evidence.machines import common_walk, correlated, independent, linear_drift, spiky

RUNS = 200
BY_CHANCE = binom.ppf(0.001, RUNS, 0.95) / RUNS  # what an interval that covers 95 % covers at least
ROLES = Roles("base", "control")


def rule(block_rounds=2, rounds=20, stop=False, comparisons=1):
    planned = rounds // block_rounds if stop else None
    return Rule(0.02, 0.95, 1000, 3, block_rounds, comparisons, planned)


def covered(machine, rounds, block_rounds, effect=0.93, **knobs):
    logs = machine(np.random.default_rng(1), RUNS, rounds, 2, 0.02, **knobs)
    found = [paired_interval(*pair, rule(block_rounds)) for pair in np.exp(logs).transpose(0, 2, 1) * [[effect], [1]]]
    return sum(interval.low <= effect <= interval.high for interval in found) / RUNS


@pytest.mark.parametrize(("rounds", "block_rounds"), [(5, 1), (20, 2), (40, 4)])
@pytest.mark.parametrize("machine", [independent, linear_drift, common_walk, spiky])
def test_the_interval_covers_the_truth_as_often_as_it_claims(machine, rounds, block_rounds):
    assert covered(machine, rounds, block_rounds) >= BY_CHANCE


def test_an_interval_is_not_wider_than_it_claims():
    assert covered(independent, 5, 1) <= 0.975
    assert covered(independent, 20, 2) <= 0.975


def test_blocks_cover_what_neighbouring_rounds_share():
    by_round, by_two, by_four = (covered(correlated, 40, block_rounds) for block_rounds in (1, 2, 4))
    assert by_round < 0.87 < by_two < by_four
    assert by_four >= BY_CHANCE


def outcomes(machine, rounds, noise, effect, asked):
    """Verdicts, mean rounds and coverage of cases that end as those of an experiment do."""
    verdicts, made, held = Counter(), [], 0
    for logs in machine(np.random.default_rng(1), RUNS, rounds, 3, noise):
        everything = dict(zip(("base", "arm", "control"), np.exp(logs).T * [[1], [effect], [1]], strict=True))
        edges = (
            [blocks * asked.block_rounds for blocks in looks(asked.planned_blocks)[:-1]] if asked.planned_blocks else []
        )
        for edge in (*edges, rounds):
            seen = {arm: seconds[:edge] for arm, seconds in everything.items()}
            if settled(seen, ROLES, asked):
                break
        found = comparison("step", "arm", seen, ROLES, asked, case_confidence(seen, ROLES, asked))
        verdicts[found.verdict] += 1
        made.append(edge)
        held += found.low <= effect <= found.high
    return verdicts, np.mean(made), held / RUNS


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize(("effect", "expected"), [(0.95, "FASTER"), (1.05, "SLOWER")])
def test_five_percent_are_found_in_twenty_rounds_of_two_percent_noise(effect, expected, stop):
    verdicts, _, _ = outcomes(common_walk, 20, 0.02, effect, rule(stop=stop))
    assert verdicts[expected] >= 0.9 * RUNS
    assert set(verdicts) <= {expected, "UNDECIDED"}


@pytest.mark.parametrize(("stop", "comparisons"), [(False, 1), (True, 20)])
def test_one_percent_is_found_in_a_fifth_of_a_percent_of_noise(stop, comparisons):
    verdicts, _, held = outcomes(common_walk, 20, 0.002, 0.99, rule(stop=stop, comparisons=comparisons))
    assert verdicts["FASTER"] >= 0.98 * RUNS
    assert held >= BY_CHANCE


@pytest.mark.parametrize("machine", [independent, linear_drift, common_walk, correlated, spiky])
def test_equal_arms_are_never_told_apart_however_often_one_looks(machine):
    verdicts, _, _ = outcomes(machine, 40, 0.01, 1.0, rule(rounds=40, stop=True))
    assert verdicts["FASTER"] + verdicts["SLOWER"] <= 0.02 * RUNS


def test_equal_arms_are_the_same_where_the_noise_is_small():
    verdicts, _, _ = outcomes(common_walk, 20, 0.01, 1.0, rule())
    assert verdicts["SAME"] >= 0.95 * RUNS


def test_a_case_that_may_end_early_does_and_still_covers_the_truth():
    verdicts, rounds, held = outcomes(common_walk, 40, 0.01, 0.93, rule(4, 40, stop=True))
    assert verdicts["FASTER"] >= 0.98 * RUNS
    assert rounds < 30
    assert held >= BY_CHANCE


def test_without_spending_the_error_many_looks_would_be_wrong_too_often():
    asked, naive, spent = rule(1, 40, stop=True), 0, 0
    for baseline, arm in np.exp(independent(np.random.default_rng(2), RUNS, 40, 2, 0.02)).transpose(0, 2, 1):
        levels = {edge: look_confidence(asked, edge) or final_confidence(asked, edge) for edge in looks(40)}
        naive += any(_misses(arm[:edge], baseline[:edge], asked, 0.95) for edge in levels)
        spent += any(_misses(arm[:edge], baseline[:edge], asked, level) for edge, level in levels.items())
    assert naive >= 0.12 * RUNS
    assert spent <= 0.075 * RUNS


def _misses(arm, baseline, asked, confidence):
    """Whether the interval excludes that equal arms are equal."""
    interval = paired_interval(arm, baseline, asked, confidence)
    return not interval.low <= 1 <= interval.high


def test_all_ratios_with_a_verdict_hold_at_once():
    """TTFT and TPOT of two arms and the control: six intervals, whose error each is a sixth of what is claimed."""
    effects, together, single = np.array([1.0, 0.95, 1.0, 1.0, 1.1, 1.0]), 0, 0
    for logs in independent(np.random.default_rng(4), RUNS, 20, 12, 0.02):
        seconds = np.exp(logs).T
        for asked in (rule(comparisons=6), rule()):
            found = [
                paired_interval(arm * effect, base, asked)
                for arm, base, effect in zip(seconds[:6], seconds[6:], effects, strict=True)
            ]
            held = all(one.low <= effect <= one.high for one, effect in zip(found, effects, strict=True))
            together, single = together + held * (asked.comparisons == 6), single + held * (asked.comparisons == 1)
    assert together / RUNS >= BY_CHANCE
    assert single / RUNS < 0.85


def test_an_arm_that_its_memory_makes_equal_is_not_called_the_same():
    """Truly 3 % slower, and 3 % faster for where its caches lie. Only a control that is placed otherwise can tell."""
    verdicts = {}
    for placed in (1.0, 1.03, 1 / 1.03):
        told = Counter()
        for logs in common_walk(np.random.default_rng(6), 100, 20, 3, 0.003):
            seen = dict(zip(("base", "arm", "control"), np.exp(logs).T * [[1], [1.03 * 0.97], [placed]], strict=True))
            told[comparison("step", "arm", seen, ROLES, rule(), 0.95).verdict] += 1
        verdicts[placed] = told
    assert verdicts[1.0]["SAME"] >= 95
    assert verdicts[1.03] == verdicts[1 / 1.03] == {"UNDECIDED": 100}
