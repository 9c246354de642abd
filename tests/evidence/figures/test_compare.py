from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.evidence.figures.compare import Roles, bare_ratio, case_confidence, comparison, rule_for, settled
from pipeline.evidence.stats import Rule, final_confidence, look_confidence
from tests.evidence.machines import common_walk

ROLES = Roles("base", "control")
RULE = Rule(0.02, 0.95, 1000, 0, planned_blocks=40)


def seconds(rounds, noise, **effects):
    effects = {"base": 1.0, **effects}
    logs = common_walk(np.random.default_rng(0), 1, 40, len(effects), noise)[0, :rounds]
    return {arm: np.exp(logs[:, number]) * effect for number, (arm, effect) in enumerate(effects.items())}


def test_every_arm_but_the_baseline_has_the_ratios_of_the_family():
    measure = {"margin": 0.02, "confidence": 0.95, "resamples": 1000, "rounds": 21, "block_rounds": 4, "scope": "stack"}
    asked = SimpleNamespace(**measure, stop="decided", control=True)
    config = SimpleNamespace(seed=7, arms=dict.fromkeys("abc"), measure=asked)
    assert rule_for(config, 9) == Rule(
        0.02, 0.95, 1000, 7, block_rounds=4, comparisons=27, planned_blocks=5, resolution=0.003
    )
    stage = SimpleNamespace(seed=7, arms=config.arms, measure=SimpleNamespace(**vars(asked) | {"scope": "topk"}))
    assert rule_for(stage, 9).resolution == 0.008
    asked = SimpleNamespace(**measure, stop="budget", control=False)
    alone = SimpleNamespace(seed=7, arms=dict.fromkeys("a"), measure=asked)
    assert rule_for(alone, 9) == Rule(0.02, 0.95, 1000, 7, block_rounds=4, comparisons=9, resolution=0.003)


def test_a_case_is_settled_when_every_candidate_is():
    clear = seconds(5, 0.0005, arm=0.9, control=1.0)
    assert settled(clear, ROLES, RULE) == look_confidence(RULE, 5)
    both = seconds(5, 0.0005, arm=0.9, other=1.1, control=1.0)
    assert settled(both, ROLES, RULE)
    noisy = both | {"other": both["other"] * [1.0, 1.2, 0.9, 1.1, 0.8]}
    assert settled(noisy, ROLES, RULE) is None
    assert settled(seconds(6, 0.0005, arm=0.9, control=1.0), ROLES, RULE) is None, "no look is planned there"
    assert settled(clear, ROLES, replace(RULE, planned_blocks=None)) is None


def test_without_a_candidate_nothing_is_settled():
    assert settled(seconds(5, 0.0005, control=1.0), ROLES, RULE) is None
    assert settled({}, ROLES, RULE) is None


def test_a_case_without_its_baseline_is_never_settled():
    assert settled({"arm": np.ones(5), "control": np.ones(5)}, ROLES, RULE) is None


def test_the_same_ends_a_case_only_where_more_rounds_would_not_find_a_difference():
    equal = seconds(8, 0.001, arm=1.0, control=1.0)
    assert comparison("step", "arm", equal, ROLES, RULE, look_confidence(RULE, 8)).verdict == "SAME"
    assert settled(equal, ROLES, RULE)
    slightly = seconds(8, 0.002, arm=0.993, control=1.0)
    assert comparison("step", "arm", slightly, ROLES, RULE, look_confidence(RULE, 8)).verdict == "SAME"
    assert settled(slightly, ROLES, RULE) is None
    assert comparison("step", "arm", seconds(40, 0.002, arm=0.993, control=1.0), ROLES, RULE, 0.95).verdict == "FASTER"


def test_the_confidence_of_a_case_is_that_of_the_look_that_decided_it():
    clear, noisy = seconds(8, 0.0005, arm=0.9, control=1.0), seconds(8, 0.1, arm=0.9, control=1.0)
    assert case_confidence(clear, ROLES, RULE) == look_confidence(RULE, 8)
    assert case_confidence(noisy, ROLES, RULE) == final_confidence(RULE, 8)
    assert case_confidence({}, ROLES, RULE) == 0.95


def test_an_arm_is_not_the_same_as_a_baseline_that_differs_from_itself():
    """The control is surely 6 % slower than itself: an arm on its own memory may be shifted as much."""
    fair = comparison("step", "arm", seconds(20, 0.002, arm=1.0, control=1.0), ROLES, RULE, 0.95)
    assert (fair.verdict, fair.bias) == ("SAME", 0.0)
    shifted = comparison("step", "arm", seconds(20, 0.002, arm=1.0, control=1.06), ROLES, RULE, 0.95)
    assert shifted.verdict == "UNDECIDED" and shifted.rounds_needed is None
    assert 0.055 < shifted.bias < 0.06 < shifted.noise < 0.065
    slightly = seconds(20, 0.002, arm=1.0, control=1.005)
    assert comparison("step", "arm", slightly, ROLES, RULE, 0.95).verdict == "SAME", "1 % is left of the margin"
    assert settled(seconds(8, 0.002, arm=1.0, control=1.06), ROLES, RULE) is None


def test_a_metric_that_is_not_judged_has_its_ratio():
    found = seconds(20, 0.01, arm=0.9)
    assert bare_ratio("arm", found, ROLES) == pytest.approx(np.exp(np.log(found["arm"] / found["base"]).mean()))
    assert bare_ratio("arm", found | {"base": np.zeros(20)}, ROLES) is None


def test_an_undecided_pair_says_how_many_rounds_would_decide():
    noisy = seconds(20, 0.05, arm=0.97, control=1.0)
    found = comparison("step", "arm", noisy, ROLES, RULE, 0.95)
    assert found.verdict == "UNDECIDED"
    assert found.rounds_needed > 20
    decided = comparison("step", "arm", seconds(20, 0.005, arm=0.9, control=1.0), ROLES, RULE, 0.95)
    assert (decided.verdict, decided.rounds_needed) == ("FASTER", None)
    assert decided.blocks == pytest.approx(np.log(0.9) * np.ones(20), abs=0.03)
    assert np.exp(np.mean(decided.blocks)) == pytest.approx(decided.ratio)


def test_of_many_equal_pairs_none_is_told_apart():
    """Without control and margin, what one comparison in twenty would claim, none of a family of forty may."""
    alone, single, family = Roles("base", None), 0, 0
    for logs in np.random.default_rng(5).normal(0, 0.01, (40, 20, 2)):
        pair = dict(zip(("base", "arm"), np.exp(logs).T, strict=True))
        for asked in (replace(RULE, margin=1e-9), replace(RULE, margin=1e-9, comparisons=40)):
            told = comparison("step", "arm", pair, alone, asked, 1 - asked.error).verdict != "UNDECIDED"
            single, family = single + (told and asked.comparisons == 1), family + (told and asked.comparisons == 40)
    assert single >= 1
    assert family == 0
