from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from pipeline.evidence.figures.compare import Roles, case_confidence, comparison, settled
from pipeline.evidence.figures.overall import overall
from pipeline.evidence.stats import Interval, Rule, looks, overall_interval
from pipeline.evidence.summary import ArmSummary, CaseSummary, Check, FastPath
from tests.evidence.machines import common_walk, independent

RULE = Rule(0.02, 0.95, 1000, 0)
PLAN = 20  # blocks of a case that may end early
ROLES, ALONE = Roles("base", "control"), Roles("base", None)


def case(context, effect, workload="decode", mode="", noise=0.002, rounds=20, arms=("base", "arm", "control"), seed=0):
    random = np.random.default_rng([seed, context])
    logs = common_walk(random, 1, rounds, 3, noise)[0]
    seconds = dict(zip(("base", "arm", "control"), np.exp(logs).T * [[1.0], [effect], [1.0]], strict=True))
    summaries = {}
    for arm in arms:
        found = {} if arm == "base" else {"tpot": comparison("tpot", arm, seconds, ROLES, RULE, 0.95)}
        check, path = Check(True, 0.0, 1.0, ""), FastPath(0, 0, 0, 0, False)
        summaries[arm] = ArmSummary(arm, check, {}, {}, path, found)
    name = f"{workload}-{context}"
    return CaseSummary(name, workload, context, "d", "stack", "tpot", summaries, 1, 1, rounds, 0, mode)


def test_the_geometric_mean_over_contexts_has_its_own_interval():
    cases = [case(8, 0.9), case(16, 0.95), case(32, 1.0)]
    found = {(one.workload, one.mode, one.arm): one.comparison for one in overall(cases, ROLES, RULE)}
    assert set(found) == {("decode", "", "arm"), ("decode", "", "control")}
    mean = found["decode", "", "arm"]
    ratios = [one.arms["arm"].comparisons["tpot"].ratio for one in cases]
    assert mean.ratio == pytest.approx(np.prod(ratios) ** (1 / 3))
    assert (mean.verdict, mean.metric, mean.rounds, mean.confidence) == ("FASTER", "tpot", 60, 0.95)
    single = cases[0].arms["arm"].comparisons["tpot"]
    assert mean.high - mean.low < 0.75 * (single.high - single.low), "three contexts tell more than one"
    assert 0 < mean.noise < single.noise + 0.001
    assert found["decode", "", "control"].verdict == "SAME"


def test_workloads_and_modes_have_means_of_their_own_at_the_confidence_of_their_cases():
    cases = [
        case(context, effect, workload, mode)
        for context in (8, 16)
        for workload, mode, effect in [("decode", "eager", 0.9), ("decode", "graph", 1.1), ("prefill", "eager", 1.0)]
    ]
    found = {(one.workload, one.mode): one.comparison for one in overall(cases, ROLES, RULE) if one.arm == "arm"}
    verdicts = {key: comparison.verdict for key, comparison in found.items()}
    assert verdicts == {("decode", "eager"): "FASTER", ("decode", "graph"): "SLOWER", ("prefill", "eager"): "SAME"}
    assert [one.confidence for one in found.values()] == [0.95] * 3


def test_a_mean_has_the_highest_confidence_of_its_contexts():
    sure, other = case(8, 0.9), case(16, 0.9)
    arm = sure.arms["arm"]
    sure.arms["arm"] = replace(arm, comparisons={"tpot": replace(arm.comparisons["tpot"], confidence=0.999)})
    found, plain = (overall([one, other], ROLES, RULE)[0].comparison for one in (sure, case(8, 0.9)))
    assert (found.confidence, plain.confidence) == (0.999, 0.95)
    assert found.high - found.low > 1.5 * (plain.high - plain.low)


def test_one_context_is_no_mean():
    assert overall([case(8, 0.9), case(8, 0.9, workload="prefill")], ROLES, RULE) == ()
    without = case(16, 0.9, arms=("base", "control"))
    without.arms["arm"] = ArmSummary("arm", Check(False, 1.0, 0.1, "wrong"), {}, {}, FastPath(0, 0, 0, 0, False), {})
    assert [one.arm for one in overall([case(8, 0.9), without], ROLES, RULE)] == ["control"]


def test_a_context_with_too_few_rounds_leaves_the_mean_without_interval():
    found = overall([case(8, 0.9), case(16, 0.9, rounds=3)], ROLES, RULE)[0].comparison
    assert (found.low, found.high, found.noise, found.verdict) == (None, None, None, "UNDECIDED")
    assert found.ratio == pytest.approx(0.9, abs=0.005)


def stopped(effects: dict[int, float], noise: float, random) -> tuple:
    """Contexts of a ladder, each ended by what was seen of it; the interval of their mean, and one at 95 %."""
    asked, cases = replace(RULE, planned_blocks=PLAN), []
    for context, effect in effects.items():
        logs = independent(random, 1, PLAN, 2, noise)[0]
        whole = dict(zip(("base", "arm"), np.exp(logs).T * [[1.0], [effect]], strict=True))
        for edge in looks(PLAN):
            seen = {arm: seconds[:edge] for arm, seconds in whole.items()}
            if settled(seen, ALONE, asked):
                break
        made = {"arm": {"tpot": comparison("tpot", "arm", seen, ALONE, asked, case_confidence(seen, ALONE, asked))}}
        check, path = Check(True, 0.0, 1.0, ""), FastPath(0, 0, 0, 0, False)
        arms = {arm: ArmSummary(arm, check, {}, {}, path, made.get(arm, {})) for arm in whole}
        cases.append(CaseSummary("c", "decode", context, "d", "stack", "tpot", arms, 1, 1, edge, 0))
    [found] = overall(cases, ALONE, asked)
    ratios = [Interval(1.0, None, None, 0, case.arms["arm"].comparisons["tpot"].blocks) for case in cases]
    return found.comparison, overall_interval(ratios, asked, 0.95), [case.rounds for case in cases]


def test_the_mean_covers_the_truth_where_its_contexts_ended_as_soon_as_they_looked_decided():
    """Without the confidence of the looks it would cover less than it claims."""
    runs, effect, random = 200, 0.95, np.random.default_rng(11)
    results = [stopped(dict.fromkeys((8, 16), effect), 0.02, random) for _ in range(runs)]
    held = sum(found.low <= effect <= found.high for found, *_ in results)
    naive = sum(plain.low <= effect <= plain.high for _, plain, _ in results)
    early = np.mean([rounds < PLAN for *_, made in results for rounds in made])
    assert early > 0.3, "contexts do end early"
    assert held >= binom.ppf(0.001, runs, 0.95)
    assert naive < held


def test_the_mean_covers_the_truth_as_often_as_it_claims():
    effects, held = {8: 0.9, 16: 0.95, 32: 1.0, 64: 1.05}, 0
    truth = np.prod(list(effects.values())) ** (1 / 4)
    for seed in range(100):
        cases = [case(context, effect, noise=0.02, rounds=6, seed=seed) for context, effect in effects.items()]
        found = next(one for one in overall(cases, ROLES, RULE) if one.arm == "arm").comparison
        held += found.low <= truth <= found.high
    assert 91 <= held <= 99
