"""May this change pass? Decided by intervals, never by a ratio alone.

    max_regression   every arm in every case. Held where the interval's upper end is within the allowance, violated
                     where its lower end is beyond it, undecided otherwise. Both ends are moved outwards by what the
                     control surely differs from the baseline
    require faster   every arm over all contexts of every workload. Held by FASTER, violated by SAME and SLOWER

Undecided is also what was not seen: a case that was left out or has too few sound rounds, an arm that never took its
fast path. What is undecided fails unless the gate says otherwise. An arm that failed its check fails always, and so
does a gate that found nothing to demand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.evidence.answers.found import why_not_compared
from pipeline.evidence.findings import GateOutcome
from pipeline.evidence.stats import resolution
from pipeline.evidence.summary import CaseSummary, Comparison, Summary
from pipeline.questions import Gate

HELD, VIOLATED, UNDECIDED = "held", "VIOLATED", "UNDECIDED"


@dataclass(frozen=True)
class _Demand:
    state: str
    text: str


def gated(summary: Summary, gate: Gate, left_out: Sequence[str] = ()) -> GateOutcome | None:
    """None where nothing is demanded. `left_out`: cases that were asked for and are not in the summary."""
    if gate.max_regression is None and gate.require is None:
        return None
    arms = [arm for arm in summary.cases[0].arms if arm not in (summary.baseline, summary.control)]
    demands = [*_checks(summary), *(_Demand(UNDECIDED, f"{case} was left out") for case in left_out)]
    for arm in arms:
        demands += _unseen(summary, arm)
        if gate.max_regression is not None:
            sound = [case for case in summary.cases if case.arms[arm].check.passed]
            demands += [_regression(case, arm, summary.control, gate.max_regression) for case in sound]
        if gate.require is not None:
            demands += _faster(summary, arm)
    failing = (VIOLATED, UNDECIDED) if gate.undecided == "fail" else (VIOLATED,)
    bad = [demand for demand in demands if demand.state in failing]
    let_pass = [demand for demand in demands if demand.state == UNDECIDED and demand not in bad]
    lines = [f"{demand.state}: {demand.text}" for demand in (*bad, *let_pass)]
    held = sum(demand.state == HELD for demand in demands)
    return GateOutcome(bool(demands) and not bad, (*lines, f"{held} of {len(demands)} demands held: {_asked(gate)}"))


def _asked(gate: Gate) -> str:
    asked = [] if gate.max_regression is None else [f"gate.max_regression={100 * gate.max_regression:g}%"]
    asked += [] if gate.require is None else [f"gate.require={gate.require}"]
    return " ".join([*asked, f"gate.undecided={gate.undecided}"])


def _checks(summary: Summary) -> Iterator[_Demand]:
    for case in summary.cases:
        for arm in case.arms.values():
            if not arm.check.passed:
                yield _Demand(VIOLATED, f"{arm.arm} failed its check at {case.case}: {arm.check.detail}")


def _unseen(summary: Summary, arm: str) -> list[_Demand]:
    paths = [case.arms[arm].path for case in summary.cases]
    if not any(path.expected for path in paths) or any(path.skipped_rows for path in paths):
        return []
    return [_Demand(UNDECIDED, f"{arm} never took its fast path")]


def _regression(case: CaseSummary, arm: str, control: str | None, allowed: float) -> _Demand:
    comparison = case.arms[arm].comparisons.get(case.primary)
    where = f"{arm} at {case.case}"
    if comparison is None:
        return _Demand(UNDECIDED, f"{where} has no ratio: {why_not_compared(case, arm)}")
    said = f"{where}: time {_ratio(comparison)}, at most {1 + allowed:g} is allowed"
    if case.void:
        return _Demand(UNDECIDED, f"{said}; {_void(case)}")
    if comparison.low is None or comparison.high is None:
        return _Demand(UNDECIDED, f"{said}; {comparison.rounds} rounds give no interval")
    bias = comparison.bias
    said += f"; {control} differs by {bias:.1%} at least" if bias else ""
    if comparison.high * (1 + bias) <= 1 + allowed:
        return _Demand(HELD, said)
    surely = comparison.low / (1 + max(bias, resolution(case.scope))) > 1 + allowed
    state = VIOLATED if surely else UNDECIDED
    return _Demand(state, f"{said}{_more(comparison)}")


def _faster(summary: Summary, arm: str) -> list[_Demand]:
    """Over the contexts of each workload and mode, where there are several; of the only one otherwise."""
    overall = {(one.workload, one.mode): one.comparison for one in summary.overall if one.arm == arm}
    demands = []
    for workload, mode in dict.fromkeys((case.workload, case.mode) for case in summary.cases):
        cases = [case for case in summary.cases if (case.workload, case.mode) == (workload, mode)]
        where = f"{arm} in {workload}{f' ({mode})' if mode else ''}"
        void = "; ".join(f"{case.case}: {_void(case)}" for case in cases if case.void)
        if void:
            demands.append(_Demand(UNDECIDED, f"{where}: FASTER is required; {void}"))
        elif (workload, mode) in overall:
            demands.append(_is_faster(where, overall[workload, mode]))
        else:
            demands += [
                _is_faster(f"{arm} at {case.case}", case.arms[arm].comparisons.get(case.primary)) for case in cases
            ]
    return demands


def _void(case: CaseSummary) -> str:
    return f"too few of its rounds are sound ({case.void})"


def _is_faster(where: str, comparison: Comparison | None) -> _Demand:
    if comparison is None:
        return _Demand(UNDECIDED, f"{where} has no ratio")
    said = f"{where} is {comparison.verdict}, time {_ratio(comparison)}, FASTER is required"
    state = {"FASTER": HELD, "UNDECIDED": UNDECIDED}.get(comparison.verdict, VIOLATED)
    return _Demand(state, said if state != UNDECIDED else f"{said}{_more(comparison)}")


def _ratio(comparison: Comparison) -> str:
    if comparison.low is None or comparison.high is None:
        return f"{comparison.ratio:.3f}"
    return f"{comparison.ratio:.3f} [{comparison.low:.3f}, {comparison.high:.3f}]"


def _more(comparison: Comparison) -> str:
    return f"; about {comparison.rounds_needed} rounds would decide" if comparison.rounds_needed else ""
