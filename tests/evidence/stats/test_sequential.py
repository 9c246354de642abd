import numpy as np
import pytest
from scipy import stats

from pipeline.evidence.stats import Rule, final_confidence, look_confidence, looks


def rule(planned, confidence=0.95, comparisons=1):
    return Rule(0.02, confidence, 1000, 0, comparisons=comparisons, planned_blocks=planned)


def errors(asked):
    *before, last = looks(asked.planned_blocks)
    return [1 - look_confidence(asked, look) for look in before] + [1 - final_confidence(asked, last)]


def test_looks_lie_further_and_further_apart_and_the_last_is_the_plan():
    assert looks(40) == (5, 8, 12, 18, 40)
    assert looks(10) == (5, 10)
    assert looks(7) == (7,)
    assert looks(1) == (1,)


@pytest.mark.parametrize("planned", [10, 20, 100])
def test_all_looks_together_are_wrong_as_often_as_claimed(planned):
    """A random walk without drift leaves the bounds of a look with the chance that was spent until then."""
    asked = rule(planned)
    walk = np.cumsum(np.random.default_rng(0).normal(size=(100_000, planned)), axis=1)
    left = np.zeros(len(walk), bool)
    for look, error in zip(looks(planned), errors(asked), strict=True):
        left |= abs(walk[:, look - 1]) / np.sqrt(look) > stats.norm.isf(error / 2)
        assert left.mean() == pytest.approx(0.05 * (look / planned) ** 2, abs=0.002)


def test_the_last_look_costs_little_and_the_first_is_strict():
    found = errors(rule(20))
    assert found == sorted(found)
    assert found[0] == pytest.approx(0.05 * (5 / 20) ** 2)
    assert 0.04 < found[-1] < 0.05


def test_a_case_whose_seconds_are_spent_early_has_all_error_left_for_its_end():
    asked = rule(40)
    assert 1 - final_confidence(asked, 9) > 1 - look_confidence(asked, 12)
    assert 0.045 < 1 - final_confidence(asked, 9) < 0.05
    assert final_confidence(asked, 5) == final_confidence(asked, 3) == 0.95


def test_without_a_plan_there_is_one_look():
    asked = Rule(0.02, 0.95, 1000, 0, comparisons=10)
    assert look_confidence(asked, 5) is None
    assert final_confidence(asked, 5) == final_confidence(asked, 50) == pytest.approx(0.995)


def test_no_look_is_taken_where_none_is_planned():
    assert [blocks for blocks in range(41) if look_confidence(rule(40), blocks)] == [5, 8, 12, 18]


def test_the_error_of_one_of_many_comparisons_is_shared_out_among_its_looks():
    assert errors(rule(20, comparisons=40))[0] == pytest.approx(0.05 / 40 / 16)
    assert sum(errors(rule(20, comparisons=40))) > 0.05 / 40
    assert max(errors(rule(20, comparisons=40))) < 0.05 / 40
