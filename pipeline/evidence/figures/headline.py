"""The verdict of an experiment in clauses. What undermines it comes first."""

from collections.abc import Sequence

from pipeline.evidence.stats import noise_floor
from pipeline.evidence.summary import CaseSummary, Comparison, Overall
from pipeline.evidence.timing.modes import changed_winners

MOST_ROUNDS = 10  # times those that ran: beyond that nobody waits for a decision


def headline(
    cases: Sequence[CaseSummary], baseline: str, control: str | None, overall: Sequence[Overall] = ()
) -> tuple[str, ...]:
    arms = list(cases[0].arms)
    candidates = [arm for arm in arms if arm not in (baseline, control)]
    clauses = changed_winners(cases, baseline, control)
    clauses += _void(cases)
    clauses += _biased(cases, baseline, control, overall) if control else []
    clauses += [clause for arm in candidates for clause in _unused(cases, arm)]
    clauses += [clause for arm in arms for clause in _failures(cases, arm)]
    for arm in candidates:
        for ladder in dict.fromkeys((case.workload, case.mode) for case in cases):
            clauses += _verdicts([case for case in cases if (case.workload, case.mode) == ladder], arm, baseline)
            clauses += [_mean(found) for found in overall if (found.workload, found.mode, found.arm) == (*ladder, arm)]
        clauses += _used(cases, arm)
    if not candidates:
        failed = all(not case.arms[baseline].check.passed for case in cases)
        what = f"{baseline}, the baseline, failed and was the only arm" if failed else f"only {baseline} was measured"
        clauses.append(f"{what}, there is nothing to compare")
    return tuple(clauses)


def _void(cases: Sequence[CaseSummary]) -> list[str]:
    return [f"TOO FEW ROUNDS of {case.case} were free of disturbance ({case.void})" for case in cases if case.void]


def _biased(cases: Sequence[CaseSummary], baseline: str, control: str, overall: Sequence[Overall]) -> list[str]:
    """Where the control, which is the baseline, has an interval without 1: so may any arm differ for no reason."""
    compared = [(f"at {case.case}", one) for case in cases for one in case.arms[control].comparisons.values()]
    compared += [
        (f"over all contexts of {one.workload}{f' in {one.mode}' if one.mode else ''}", one.comparison)
        for one in overall
        if one.arm == control
    ]
    found = [
        f"{where} ({one.metric.upper()}) by {100 * one.bias:.2g} to {100 * noise_floor(one):.2g} %"
        for where, one in compared
        if one.bias
    ]
    if not found:
        return []
    return [f"{baseline} measured twice SURELY DIFFERS from itself, {', '.join(found)}: so may any arm"]


def _unused(cases: Sequence[CaseSummary], arm: str) -> list[str]:
    paths = [case.arms[arm].path for case in cases]
    if not any(path.expected for path in paths) or any(path.skipped_rows for path in paths):
        return []
    return [f"the fast path of {arm} NEVER FIRED in {_count(len(cases), 'case')}"]


def _used(cases: Sequence[CaseSummary], arm: str) -> list[str]:
    paths = [case.arms[arm].path for case in cases]
    taken, steps = sum(path.fast_steps for path in paths), sum(path.steps for path in paths)
    found = sum(path.skipped_rows > 0 for path in paths)
    where = f"{taken} of {_count(steps, 'timed step')}, in {found} of {_count(len(cases), 'case')}"
    return [f"{arm} took its fast path in {where}"] if taken else []


def _failures(cases: Sequence[CaseSummary], arm: str) -> list[str]:
    failed = [case for case in cases if not case.arms[arm].check.passed]
    if not failed:
        return []
    where = "everywhere" if len(failed) == len(cases) else "in " + ", ".join(case.case for case in failed)
    return [f"{arm} FAILED its check {where} ({failed[0].arms[arm].check.detail})"]


def _verdicts(cases: Sequence[CaseSummary], arm: str, baseline: str) -> list[str]:
    """One clause over the contexts of a workload, nothing where no case has a comparison."""
    found: dict[str, list[tuple[int, Comparison]]] = {}
    ladder = sorted({case.context for case in cases})
    for case in sorted(cases, key=lambda case: case.context):
        comparison = case.arms[arm].comparisons.get(case.primary)
        if comparison:
            found.setdefault(comparison.verdict, []).append((case.context, comparison))
    if not found:
        return []
    mix = cases[0].label if cases[0].label.startswith("mix") else ""
    parts = [
        f"{verdict}{_size(verdict, [comparison for _, comparison in group])} "
        f"{f'over a {mix}' if mix else _contexts([context for context, _ in group], ladder)}"
        for verdict, group in found.items()
    ]
    return [f"{arm} against {baseline} in {cases[0].workload} ({_metric(cases[0])}): {', '.join(parts)}"]


def _metric(case: CaseSummary) -> str:
    return f"{case.primary.upper()}, {case.mode}" if case.mode else case.primary.upper()


def _size(verdict: str, group: list[Comparison]) -> str:
    """In percent of the baseline's time."""
    if verdict == "SAME":
        return f" within {100 * group[0].margin:.3g} %"
    if verdict == "UNDECIDED":
        return f" ({_missing(group)})"
    sizes = [100 * abs(1 - comparison.ratio) for comparison in group]
    least, most = f"{min(sizes):.1f} %", f"{max(sizes):.1f} %"
    return f" by {least}" if least == most else f" by {least} to {most}"


def _missing(group: list[Comparison]) -> str:
    rounds, needed = min(one.rounds for one in group), [one.rounds_needed for one in group]
    if None not in needed:
        if max(needed) > MOST_ROUNDS * rounds:
            return f"{_count(rounds, 'round')}, not decidable at this noise"
        return f"{_count(rounds, 'round')}, {max(needed)} would decide"
    if any(one.low is None for one in group):
        return f"{_count(rounds, 'round')} {'is' if rounds == 1 else 'are'} too few for an interval"
    apart = [one for one in group if one.noise is not None and (one.high < 1 or one.low > 1)]
    if len(apart) == len(group):
        return f"within the noise, ±{100 * max(one.noise for one in apart):.0f} %"
    return f"{_count(rounds, 'round')}, and more of the same would not decide"


def _mean(overall: Overall) -> str:
    found = overall.comparison
    change = f"{100 * (found.ratio - 1):+.1f} %"
    bounds = "" if found.low is None else f" [{100 * (found.low - 1):+.1f}, {100 * (found.high - 1):+.1f}]"
    where = f"{overall.workload} ({overall.mode})" if overall.mode else overall.workload
    return f"{overall.arm}, all contexts of {where}: {found.verdict}, time {change}{bounds} (geometric mean)"


def _contexts(contexts: list[int], ladder: list[int]) -> str:
    if len(contexts) == 1:
        return f"at context {contexts[0]}"
    if contexts == ladder:
        return "at every context"
    if contexts == ladder[: len(contexts)]:
        return f"up to context {contexts[-1]}"
    if contexts == ladder[-len(contexts) :]:
        return f"from context {contexts[0]} on"
    return f"at contexts {', '.join(map(str, contexts))}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
