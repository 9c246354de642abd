"""At which contexts an arm pays, and what that is worth on real traffic.

Between two measured contexts times are interpolated linearly in the context. A ratio over the traffic is the time of
all its requests with the arm over that with the baseline; each is taken to run among requests of its own length.
Requests beyond the measured contexts are left out and counted.

Every context's ratio has its interval. Where the traffic's weights are known the ratio over it is a weighted mean of
the contexts' ratios, so that it lies between the weighted means of their lower and of their upper ends whenever they
all lie in their intervals. That needs no independence between contexts, and is wider than an interval of its own.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from pipeline.evidence.findings import Applies, Crossing, Weighted
from pipeline.evidence.summary import CaseSummary, Comparison
from pipeline.schema import Workload
from pipeline.work.traffic import Drawn, Lengths

SECONDS = {"ttft": ("mean_ttft_ms", 1e3), "tpot": ("mean_tpot_ms", 1e3), "step": ("mean_step_us", 1e6)}


def applies(
    cases: Sequence[CaseSummary],
    workloads: Mapping[str, Workload],
    traffic: Mapping[str, Drawn],
    baseline: str,
    control: str | None,
) -> tuple[Applies, ...]:
    """One for each arm, workload and mode with several contexts.

    A workload whose requests differ in length has no context to tell of.
    """
    ladders = {(case.workload, case.mode): [] for case in cases if _is_ladder(workloads[case.workload])}
    for case in sorted(cases, key=lambda case: case.context):
        if (case.workload, case.mode) in ladders:
            ladders[case.workload, case.mode].append(case)
    found = []
    for (workload, _), ladder in ladders.items():
        if len(ladder) == 1:
            continue
        decodes = workloads[workload].decodes
        drawn = {name: (one.source, one.decodes if decodes else one.prompts) for name, one in traffic.items()}
        for arm in ladder[0].arms:
            if arm not in (baseline, control):
                found.append(_applies(ladder, arm, baseline, drawn, "decode steps" if decodes else "requests"))
    return tuple(found)


def seconds(case: CaseSummary, arm: str, metric: str | None = None) -> float | None:
    """The mean of a metric; left out, of the one that the case is judged by."""
    key, unit = SECONDS.get(metric or case.primary, ("", 1.0))
    value = case.arms[arm].metrics.get(key)
    return None if value is None else value / unit


def _is_ladder(workload: Workload) -> bool:
    return bool(workload.ladder or workload.boundary)


def _applies(
    ladder: Sequence[CaseSummary], arm: str, baseline: str, drawn: Mapping[str, tuple[str, Lengths]], counted: str
) -> Applies:
    compared = [(case, case.arms[arm].comparisons[case.primary]) for case in ladder if _is_compared(case, arm)]
    seen = any(case.arms[arm].path.expected for case in ladder)
    fast = tuple(case.context for case in ladder if case.arms[arm].path.skipped_rows) if seen else None
    weighted = [_weighted(compared, fast, baseline, name, *one, counted) for name, one in drawn.items()]
    return Applies(
        workload=ladder[0].workload,
        arm=arm,
        fast_path=fast,
        crossings=tuple(_crossings([(case.context, comparison) for case, comparison in compared])),
        weighted=tuple(one for one in weighted if one),
        mode=ladder[0].mode,
        measured=tuple(case.context for case, _ in compared),
        faster=tuple(case.context for case, comparison in compared if comparison.verdict == "FASTER"),
        undecided=tuple(case.context for case, comparison in compared if comparison.verdict == "UNDECIDED"),
    )


def _is_compared(case: CaseSummary, arm: str) -> bool:
    return case.primary in case.arms[arm].comparisons


def _crossings(points: Sequence[tuple[int, Comparison]]) -> Iterator[Crossing]:
    """Log ratio against log context."""
    decided = [(context, comparison) for context, comparison in points if comparison.verdict != "UNDECIDED"]
    for (left, before), (right, after) in pairwise(decided):
        verdicts = {before.verdict, after.verdict}
        if verdicts == {"FASTER", "SLOWER"}:
            begin, end = math.log(before.ratio), math.log(after.ratio)
            share = begin / (begin - end)
            yield Crossing(left, right, math.exp(math.log(left) + share * math.log(right / left)))
        elif verdicts == {"FASTER", "SAME"}:
            yield Crossing(left, right, None)


def _weighted(
    compared: Sequence[tuple[CaseSummary, Comparison]],
    fast: Sequence[int] | None,
    baseline: str,
    name: str,
    source: str,
    drawn: Lengths,
    counted: str,
) -> Weighted | None:
    """None where fewer than two contexts were measured, or none of the traffic lies among them."""
    contexts = np.array([case.context for case, _ in compared], float)
    if len(contexts) < 2:
        return None
    inside = (drawn.contexts >= contexts[0]) & (drawn.contexts <= contexts[-1])
    covered = float(drawn.shares[inside].sum())
    if not covered:
        return None
    base = np.array([seconds(case, baseline) for case, _ in compared], float)
    weights = base * _knots(contexts, drawn.contexts[inside], drawn.shares[inside])
    bounds = [(one.low, one.high) for _, one in compared]
    known = all(low is not None for low, _ in bounds)
    on_fast_path = None if fast is None else _share_between(drawn, fast, [case.context for case, _ in compared])
    batch = compared[0][0].requests
    return Weighted(
        traffic=name,
        source=source,
        metric=compared[0][0].primary,
        ratio=float(np.average([one.ratio for _, one in compared], weights=weights)),
        low=float(np.average([low for low, _ in bounds], weights=weights)) if known else None,
        high=float(np.average([high for _, high in bounds], weights=weights)) if known else None,
        on_fast_path=on_fast_path,
        covered=covered,
        counted=counted,
        batch=batch,
        batches=on_fast_path**batch if fast else None,
    )


def _knots(contexts: np.ndarray, points: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """How much each measured context counts when what lies between two is shared among both by distance."""
    return np.array([(np.interp(points, contexts, unit) * shares).sum() for unit in np.eye(len(contexts))])


def _share_between(drawn: Lengths, fast: Sequence[int], measured: Sequence[int]) -> float:
    """Of lengths between two neighbours at which the fast path was taken; below the lowest context too, if it was
    taken there, for what is taken at a length is taken at shorter ones."""
    taken = set(fast)
    inside = drawn.contexts <= measured[0] if measured[0] in taken else np.zeros(len(drawn.contexts), bool)
    for left, right in pairwise(measured):
        if left in taken and right in taken:
            inside |= (drawn.contexts >= left) & (drawn.contexts <= right)
    return float(drawn.shares[inside].sum())
