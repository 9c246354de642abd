"""What was found that a published figure can be held against."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.evidence.answers.setting import differences
from pipeline.evidence.summary import CaseSummary, Comparison, Summary
from pipeline.questions import Figure


@dataclass(frozen=True)
class Found:
    case: CaseSummary
    arm: str
    comparison: Comparison
    others: int  # cases that the figure holds for as well
    kind: bool  # it is the case that speaks most for the figure


def possible(comparison: Comparison) -> tuple[float, float]:
    """An interval widened by the noise floor."""
    noise = 1 + (comparison.noise or 0.0)
    return comparison.low / noise, comparison.high * noise


def effect(figure: Figure, comparison: Comparison) -> tuple[float, float]:
    """Least and most that is possible, positive in the direction of the figure."""
    low, high = possible(comparison)
    return (low - 1, high - 1) if figure.delta > 0 else (1 - high, 1 - low)


def scope(summary: Summary) -> str:
    return f"layers {summary.layers}" if summary.scope == "stack" else f"stage {summary.scope} alone"


def found(figure: Figure, summary: Summary, here: Mapping[str, Mapping[str, str]], kind: bool) -> Found | str:
    """Of the cases that the figure holds for the one that speaks least for it; or why there is none.

    `kind`: the one that speaks most for it, for it may be the one that was meant.
    """
    arm = next((name for name in figure.candidate if name in summary.cases[0].arms), None)
    if summary.baseline not in figure.baseline or arm is None:
        pair = f"{' or '.join(figure.candidate)} with {' or '.join(figure.baseline)}"
        return f"it compares {pair}; the baseline here is {summary.baseline}, the arms {_arms(summary)}"
    if figure.scope not in ("model", summary.scope):
        return f"it is of {figure.scope} alone, here {summary.scope} was timed; use measure.scope={figure.scope}"
    asked = [case for case in summary.cases if _is_asked(figure, case)]
    if not asked:
        return f"no case is {_asked(figure)}"
    lacking = ["; ".join(differences(figure.must or {}, here[case.case])) for case in asked]
    asked = [case for case, lacks in zip(asked, lacking, strict=True) if not lacks]
    if not asked:
        return f"not comparable: {lacking[0]}"
    if figure.metric == "compiles":
        return _compiles(asked[0], arm, summary)
    failed = [name for name in (summary.baseline, arm) if not all(case.arms[name].check.passed for case in asked)]
    if failed:
        return f"{failed[0]} failed its check"
    taken = [case for case in asked if not case.arms[arm].path.expected or case.arms[arm].path.skipped_rows]
    if not taken:
        return f"{arm} never took its fast path at the contexts that it is of"
    compared = [(case, comparison) for case in taken if (comparison := _comparison(figure, case, arm))]
    if not compared:
        return f"there is no comparison of {arm}: {why_not_compared(taken[0], arm)}"
    chosen = max if kind else min
    case, comparison = chosen(compared, key=lambda pair: _support(figure, pair[1].ratio - 1))
    return Found(case, arm, comparison, len(compared) - 1, kind)


def _support(figure: Figure, change: float) -> float:
    if figure.bound:
        return change if figure.bound == "at least" else -change
    if figure.scope == "model" and figure.delta:
        return change if figure.delta > 0 else -change
    return -abs(change - figure.delta)


def _arms(summary: Summary) -> str:
    return ", ".join(arm for arm in summary.cases[0].arms if arm not in (summary.baseline, summary.control)) or "none"


def _is_asked(figure: Figure, case: CaseSummary) -> bool:
    first, last = figure.contexts or (1, case.context)
    return (figure.workloads is None or case.workload in figure.workloads) and first <= case.context <= last


def _asked(figure: Figure) -> str:
    parts = [f"of workload {' or '.join(figure.workloads)}"] if figure.workloads else []
    parts += [f"at a context from {figure.contexts[0]} to {figure.contexts[1]}"] if figure.contexts else []
    return " ".join(parts)


def _comparison(figure: Figure, case: CaseSummary, arm: str) -> Comparison | None:
    """Of the figure's metric. A model's may be held against what the case is judged by."""
    found = case.arms[arm].comparisons
    return found.get(figure.metric) or (found.get(case.primary) if figure.scope == "model" else None)


def why_not_compared(case: CaseSummary, arm: str) -> str:
    return next((why for key, why in case.arms[arm].undefined.items() if key.startswith("ratio_")), "not measured")


def _compiles(case: CaseSummary, arm: str, summary: Summary) -> Found | str:
    """A count is exact: its interval is the number itself. Kernels of which both compile as many do not count: they
    are what the arms have in common."""
    counted = {one.arm: one.by_kernel for one in summary.findings.compiles}
    mine, theirs = (counted.get(name, {}) for name in (arm, summary.baseline))
    if not (mine and theirs):
        return f"what {summary.baseline} and {arm} compile was not counted here"
    changed = [kernel for kernel in {**theirs, **mine} if mine.get(kernel) != theirs.get(kernel)]
    before, after = (sum(kernels.get(kernel, 0) for kernel in changed) for kernels in (theirs, mine))
    if changed and not (before and after):
        return f"{arm} and {summary.baseline} do not both compile a kernel of their own"
    ratio = after / before if changed else 1.0
    verdict = "SAME" if ratio == 1 else "FASTER" if ratio < 1 else "SLOWER"
    return Found(case, arm, Comparison("compiles", ratio, ratio, ratio, verdict, None, 0.0, 1.0, 1), 0, False)
