import warnings
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf
from pydantic import TypeAdapter, ValidationError
from scipy import stats as scipy_stats

from pipeline.evidence.stats import (
    MINIMUM_BLOCKS,
    Interval,
    Rule,
    block_means,
    certain_bias,
    foreseen,
    interval_method,
    mean_interval,
    noise_floor,
    outliers,
    overall_interval,
    paired_interval,
    rounds_needed,
    verdict,
)
from pipeline.schema import Measure
from tests.evidence.machines import common_walk

RULE = Rule(margin=0.02, confidence=0.95, resamples=1000, seed=3)


def drifting_rounds(seed, rounds, noise, effects):
    """Seconds [round] of arms, slower by their effect."""
    logs = common_walk(np.random.default_rng(seed), 1, rounds, len(effects), noise)[0]
    return list((np.exp(logs) * effects).T)


def test_drift_alone_would_hide_what_pairing_finds():
    baseline, arm = drifting_rounds(0, 20, 0.01, [1.0, 0.95])
    assert baseline.std() / baseline.mean() > 0.1
    assert paired_interval(arm, baseline, RULE).high < 0.97


def test_swapping_the_arms_inverts_the_interval():
    baseline, arm = drifting_rounds(1, 9, 0.05, [1.0, 0.9])
    there, back = paired_interval(arm, baseline, RULE), paired_interval(baseline, arm, RULE)
    assert (there.low, there.ratio, there.high) == pytest.approx((1 / back.high, 1 / back.ratio, 1 / back.low))


def test_the_seed_fixes_the_interval():
    baseline, arm = drifting_rounds(2, 9, 0.05, [1.0, 0.9])
    assert paired_interval(arm, baseline, RULE) == paired_interval(arm, baseline, RULE)


@pytest.mark.parametrize("factor", [1.0, 0.9, 1.1])
def test_rounds_that_all_agree_neither_warn_nor_crash(factor):
    baseline = np.full(8, 0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        interval = paired_interval(baseline * factor, baseline, RULE)
        same = paired_interval(baseline, baseline, RULE)
    assert (interval.low, interval.ratio, interval.high) == pytest.approx((factor,) * 3)
    assert noise_floor(same) == pytest.approx(0, abs=1e-12) and noise_floor(same, 0.002) == 0.002
    assert verdict(interval, same, 0.02) == {1.0: "SAME", 0.9: "FASTER", 1.1: "SLOWER"}[factor]


def test_nothing_below_what_equal_arms_differ_by_for_good_is_real():
    """As seen: one kernel twice, 1.001 [1.001, 1.001] beside a control at 1.000 [1.000, 1.000]."""
    quiet = Interval(1.0, 0.9999, 1.0001, 40)
    assert verdict(Interval(1.001, 1.0008, 1.0012, 40), quiet, 0.02, 0.002) == "SAME"
    assert verdict(Interval(1.003, 1.0025, 1.0035, 40), quiet, 0.02, 0.002) == "SLOWER"
    assert verdict(Interval(0.997, 0.9965, 0.9975, 40), quiet, 0.02, 0.002) == "FASTER"
    assert verdict(Interval(1.001, 1.0008, 1.0012, 40), quiet, 0.02) == "SLOWER"


def test_without_a_control_a_margin_below_the_resolution_makes_nothing_real():
    assert verdict(Interval(0.9987, 0.9985, 0.9989, 40), None, 0.0005, 0.002) == "UNDECIDED"
    assert verdict(Interval(1.0013, 1.0011, 1.0015, 40), None, 0.0005, 0.002) == "UNDECIDED"
    assert verdict(Interval(0.997, 0.9965, 0.9975, 40), None, 0.0005, 0.002) == "FASTER"
    assert verdict(Interval(0.997, 0.9965, 0.9975, 40), None, 0.02, 0.002) == "SAME"


def test_few_rounds_decide_nothing():
    interval = paired_interval(np.full(4, 0.5), np.full(4, 1.0), RULE)
    assert interval == Interval(0.5, None, None, 4, (np.log(0.5),) * 4)
    assert noise_floor(interval) is None
    assert verdict(interval, Interval(1.0, 1.0, 1.0, 4), 0.02) == "UNDECIDED"
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
    control = None if noise is None else Interval(1.0, 1 / (1 + noise), 1 + noise, 10)
    assert verdict(Interval((low * high) ** 0.5, low, high, 10), control, margin=0.02) == expected


@pytest.mark.parametrize(
    ("low", "high", "control", "expected"),
    [
        (0.995, 1.005, (1.05, 1.07), "UNDECIDED"),  # the control is 6 % off: the arm may be as well
        (0.995, 1.005, (1 / 1.07, 1 / 1.05), "UNDECIDED"),
        (0.995, 1.005, (0.95, 1.07), "SAME"),  # noisy, but not surely off
        (0.995, 1.005, (1.01, 1.03), "SAME"),  # 1 % is sure: within the margin all the same
        (0.985, 1.005, (1.01, 1.03), "UNDECIDED"),  # 0.985 / 1.01 is not
        (0.995, 1.012, (1 / 1.03, 1 / 1.01), "UNDECIDED"),  # nor is 1.012 * 1.01
        (1.0, 1.0, (1.0201, 1.03), "UNDECIDED"),
        (1.0, 1.0, (1.0199, 1.03), "SAME"),
        (0.90, 0.92, (1.05, 1.07), "FASTER"),  # beyond all that the control allows
    ],
)
def test_the_same_is_widened_by_what_the_control_surely_differs_by(low, high, control, expected):
    assert verdict(Interval(1.0, low, high, 20), Interval(1.0, *control, 20), margin=0.02) == expected


def test_the_certain_bias_is_the_near_end_of_an_interval_without_one():
    assert certain_bias(Interval(1.06, 1.05, 1.07, 9)) == pytest.approx(0.05)
    assert certain_bias(Interval(0.9, 0.8, 0.95, 9)) == pytest.approx(1 / 0.95 - 1)
    assert certain_bias(Interval(1.0, 0.99, 1.02, 9)) == certain_bias(Interval(1.1, None, None, 4)) == 0.0
    assert certain_bias(None) == 0.0


def test_noise_is_the_end_further_from_one():
    assert noise_floor(Interval(1.0, 0.8, 1.1, 9)) == pytest.approx(0.25)
    assert noise_floor(Interval(1.1, 1.05, 1.2, 9)) == pytest.approx(0.2)
    assert noise_floor(Interval(0.9, 0.8, 0.95, 9)) == pytest.approx(0.25)


def test_blocks_are_means_of_neighbours_and_the_last_takes_what_is_left_over():
    assert block_means(np.arange(6.0), 2).tolist() == [0.5, 2.5, 4.5]
    assert block_means(np.arange(7.0), 2).tolist() == [0.5, 2.5, 5.0]
    assert block_means(np.arange(3.0), 4).tolist() == [1.0]
    assert block_means(np.arange(3.0), 1).tolist() == [0.0, 1.0, 2.0]


def test_blocks_are_what_is_resampled():
    values = np.tile([-1.0, 1.0], 10) + np.repeat(np.arange(10) / 100, 2)
    low, high = mean_interval(values, RULE)
    assert high - low > 0.5, "as single rounds they scatter"
    low, high = mean_interval(values, Rule(0.02, 0.95, 1000, 3, block_rounds=2))
    assert high - low < 0.06, "within a block they cancel"
    assert mean_interval(values[:9], Rule(0.02, 0.95, 1000, 3, block_rounds=2)) is None, "four blocks"


@pytest.mark.parametrize("blocks", [5, 8, 30])
@pytest.mark.parametrize("confidence", [0.95, 0.9975, 0.99999])
def test_the_interval_is_as_wide_as_students_at_every_confidence(blocks, confidence):
    values = np.random.default_rng(4).normal(0, 1, blocks)
    low, high = mean_interval(values, Rule(0.02, 0.95, 50_000, 3), confidence)
    width = 2 * scipy_stats.t.ppf((1 + confidence) / 2, blocks - 1) * scipy_stats.sem(values)
    assert high - low == pytest.approx(width, rel=0.06)


def test_the_interval_keeps_the_skew_of_rare_spikes():
    values = np.zeros(20)
    values[3] = 1.0
    low, high = mean_interval(values + np.linspace(0, 0.01, 20), RULE)
    mean = values.mean() + 0.005
    assert high - mean > 1.3 * (mean - low)


def test_more_comparisons_make_every_interval_wider():
    baseline, arm = drifting_rounds(1, 20, 0.05, [1.0, 0.9])
    family = Rule(0.02, 0.95, 1000, 3, comparisons=20)
    wide, narrow = paired_interval(arm, baseline, family), paired_interval(arm, baseline, RULE)
    assert wide == paired_interval(arm, baseline, RULE, confidence=1 - 0.05 / 20)
    expected = scipy_stats.t.isf(0.05 / 40, 19) / scipy_stats.t.isf(0.05 / 2, 19)
    assert np.log(wide.high / wide.low) / np.log(narrow.high / narrow.low) == pytest.approx(expected)


def test_an_overall_mean_weighs_every_context_alike():
    contexts = []
    for seed, (rounds, effect) in enumerate([(5, 0.8), (20, 1.0)]):
        baseline, arm = drifting_rounds(seed, rounds, 0.001, [1.0, effect])
        contexts.append(paired_interval(arm, baseline, RULE))
    found = overall_interval(contexts, RULE, 0.95)
    assert found.ratio == pytest.approx(0.8**0.5, abs=0.002)
    assert found.ratio == pytest.approx((contexts[0].ratio * contexts[1].ratio) ** 0.5)
    assert found.rounds == 25
    errors = [scipy_stats.sem(context.blocks) ** 2 for context in contexts]
    freedom = sum(errors) ** 2 / (errors[0] ** 2 / 4 + errors[1] ** 2 / 19)
    width = 2 * scipy_stats.t.ppf(0.975, freedom) * np.sqrt(sum(errors)) / 2
    assert np.log(found.high / found.low) == pytest.approx(width, rel=0.1)


def test_an_overall_mean_needs_an_interval_in_every_context():
    few = paired_interval(np.full(4, 0.9), np.ones(4), RULE)
    many = paired_interval(np.full(9, 0.9), np.ones(9), RULE)
    assert overall_interval([few, many], RULE, 0.95) == Interval(pytest.approx(0.9), None, None, 13)


@pytest.mark.parametrize("block_rounds", [1, 4])
def test_the_rounds_that_would_decide_are_foreseen_from_the_spread(block_rounds):
    rule = Rule(0.02, 0.95, 1000, 3, block_rounds=block_rounds)
    baseline, arm, again = drifting_rounds(5, 40, 0.06, [1.0, 0.97, 1.0])
    interval, control = (paired_interval(other, baseline, rule) for other in (arm, again))
    assert verdict(interval, control, 0.02) == "UNDECIDED"
    needed = rounds_needed(interval, control, rule)
    assert needed % block_rounds == 0 and needed > 40
    assert foreseen(interval, control, needed // block_rounds, rule) != "UNDECIDED"
    assert foreseen(interval, control, needed // block_rounds - 1, rule) == "UNDECIDED"


def test_rounds_needed_are_those_of_students_formula():
    """Blocks of mean log(0.9) and deviation 0.3 against nothing: decided when t * 0.3 / sqrt(n) < log(0.98 / 0.9)."""
    blocks = np.log(0.9) + 0.3 * np.tile([-1.0, 1.0], 5) * np.sqrt(9 / 10)
    found = rounds_needed(Interval(0.9, 0.7, 1.1, 10, tuple(blocks)), None, RULE)
    reach = [scipy_stats.t.isf(0.025, n - 1) * 0.3 / np.sqrt(n) for n in (found - 1, found)]
    assert reach[0] >= np.log(0.98 / 0.9) > reach[1]


def test_nobody_can_tell_what_too_few_blocks_or_an_unstable_control_need():
    one = Interval(0.9, None, None, 1, (np.log(0.9),))
    assert rounds_needed(one, None, RULE) is None
    few = Interval(0.9, None, None, 2, (-0.11, -0.10))
    assert rounds_needed(few, None, RULE) == MINIMUM_BLOCKS
    shifted = tuple(np.log(0.95) + np.array([-0.01, 0.0, 0.01, -0.01, 0.0, 0.01]))
    arm, surely, hardly = (
        Interval(0.95, 0.9, 1.0, 6, shifted),
        *(Interval(0.95, 0.9, high, 6, shifted) for high in (0.99, 1)),
    )
    assert rounds_needed(arm, surely, RULE) is None
    assert rounds_needed(arm, hardly, RULE) == MINIMUM_BLOCKS + 2, "it is expected to come to 1"


def test_outliers_are_those_far_from_the_median_of_the_logs():
    quiet = np.exp(np.random.default_rng(0).normal(0, 0.01, 50))
    assert outliers(quiet) == 0
    assert outliers(np.concatenate([quiet, [1.5, 1 / 1.5]])) == 2
    half_disturbed = np.where(np.arange(50) < 20, 3.0, 1.0) * quiet
    assert outliers(half_disturbed) == 20
    assert outliers(np.array([1.0] * 9 + [1.1])) == 1
    assert outliers(np.ones(5) * (1 + 1e-15)) == outliers(np.empty(0)) == 0


def test_the_fewest_resamples_are_a_thousand():
    default = OmegaConf.to_container(OmegaConf.load(Path(__file__).parents[3] / "conf/measure/default.yaml"))
    with pytest.raises(ValidationError, match="greater than or equal to 1000"):
        TypeAdapter(Measure).validate_python(default | {"resamples": 999})
    assert TypeAdapter(Measure).validate_python(default | {"resamples": 1000}).resamples == 1000


def test_the_method_is_told_with_its_looks():
    told = interval_method(Rule(0.02, 0.95, 2000, 0, block_rounds=4, comparisons=18, planned_blocks=40))
    assert "blocks of 4 rounds, at least 5; 90 % percentiles of 2,000 bootstrap resamples" in told
    assert "among the 18 ratios with a verdict" in told
    assert "looked at after 5, 8, 12, 18 and 40 blocks" in told and "to the power of 2" in told
    assert "the first look that decides every arm" in told and "nominal error" in told
    once = interval_method(Rule(0.02, 0.95, 2000, 0))
    assert "single rounds" in once and "the one ratio" in once and once.endswith("when the budget is spent")
    assert interval_method(Rule(0.02, 0.95, 2000, 0, planned_blocks=7)).endswith(
        "after 7 blocks or where measure.seconds ended it"
    )


def test_at_absurd_confidence_an_interval_is_still_a_number():
    """Student's width of five blocks has no exponential there."""
    ratios = np.exp(np.random.default_rng(0).normal(0, 0.1, 5))
    rule = Rule(margin=0.02, confidence=0.95, resamples=1000, seed=0)
    found = paired_interval(ratios, np.ones(5), rule, confidence=1 - 2e-16)
    assert 0 < found.low < 1e-60 and 1e60 < found.high < np.inf
    assert 1e60 < noise_floor(found) < np.inf and certain_bias(found) == 0
    assert verdict(found, found, 0.02) == "UNDECIDED"
