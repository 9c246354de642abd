"""An arm over all contexts of a workload."""

from collections.abc import Sequence

from pipeline.evidence import stats
from pipeline.evidence.figures.compare import Roles, compared
from pipeline.evidence.figures.shifted import noisier, sure_of, widened
from pipeline.evidence.stats import Interval, Rule
from pipeline.evidence.summary import CaseSummary, Comparison, Overall


def overall(cases: Sequence[CaseSummary], roles: Roles, rule: Rule) -> tuple[Overall, ...]:
    """The geometric mean of the ratios of each arm, where a workload has several contexts in one mode.

    Contexts are measured one after the other: each is resampled by itself and weighs as much as any other. A mean is
    one of the experiment's comparisons. It has the highest confidence of its contexts: one that ended early, when it
    looked decided, is further from the truth than a planned number of rounds would be, and so is a mean that it is in.
    """
    return tuple(
        Overall(ladder[0].workload, ladder[0].mode, arm, found)
        for ladder in _ladders(cases)
        for arm in ladder[0].arms
        if (found := _mean(ladder, arm, roles, rule))
    )


def _ladders(cases: Sequence[CaseSummary]) -> list[list[CaseSummary]]:
    found: dict[tuple[str, str, str], list[CaseSummary]] = {}
    for case in cases:
        found.setdefault((case.workload, case.mode, case.primary), []).append(case)
    return list(found.values())


def _mean(ladder: Sequence[CaseSummary], arm: str, roles: Roles, rule: Rule) -> Comparison | None:
    """None with fewer than two contexts that have a ratio."""
    known = [case for case in ladder if case.primary in case.arms[arm].comparisons]
    if len(known) < 2:
        return None
    confidence = max(case.arms[arm].comparisons[case.primary].confidence for case in known)
    interval = stats.overall_interval([_interval(case, arm) for case in known], rule, confidence)
    control = None
    if roles.control and all(case.primary in case.arms[roles.control].comparisons for case in known):
        control = stats.overall_interval([_interval(case, roles.control) for case in known], rule, confidence)
    found = compared(ladder[0].primary, interval, control, rule, confidence)
    sure = sure_of(ladder, roles.control, ladder[0].primary)
    return noisier(found, sure) if arm == roles.control else widened(found, sure)


def _interval(case: CaseSummary, arm: str) -> Interval:
    found = case.arms[arm].comparisons[case.primary]
    return Interval(found.ratio, found.low, found.high, found.rounds, found.blocks)
