"""The verdict of an experiment in one sentence. What undermines it comes first."""

from collections.abc import Sequence

from pipeline.evidence.stats import MINIMUM_ROUNDS
from pipeline.evidence.summary import CaseSummary, Comparison


def headline(cases: Sequence[CaseSummary], baseline: str, control: str | None) -> str:
    arms = list(cases[0].arms)
    candidates = [arm for arm in arms if arm not in (baseline, control)]
    clauses = [clause for arm in candidates for clause in _unused(cases, arm)]
    clauses += [clause for arm in arms for clause in _failures(cases, arm)]
    for arm in candidates:
        for workload in dict.fromkeys(case.workload for case in cases):
            clauses += _verdicts([case for case in cases if case.workload == workload], arm, baseline)
        clauses += _used(cases, arm)
    if not candidates:
        clauses.append(f"only {baseline} was measured, there is nothing to compare")
    return "; ".join(clauses) + "."


def _unused(cases: Sequence[CaseSummary], arm: str) -> list[str]:
    paths = [case.arms[arm].path for case in cases]
    if not any(path.expected for path in paths) or any(path.skipped_rows for path in paths):
        return []
    return [f"the fast path of {arm} NEVER FIRED in {_count(len(cases), 'case')}"]


def _used(cases: Sequence[CaseSummary], arm: str) -> list[str]:
    paths = [case.arms[arm].path for case in cases]
    taken = sum(path.skipped_rows > 0 for path in paths)
    return [f"{arm} took its fast path in {taken} of {_count(len(cases), 'case')}"] if taken else []


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
    parts = [
        f"{verdict}{_size(verdict, [comparison for _, comparison in group])} "
        f"{_contexts([context for context, _ in group], ladder)}"
        for verdict, group in found.items()
    ]
    return [f"{arm} against {baseline} in {cases[0].workload} ({cases[0].primary.upper()}): {', '.join(parts)}"]


def _size(verdict: str, group: list[Comparison]) -> str:
    """In percent of the baseline's time."""
    if verdict == "SAME":
        return f" within {100 * group[0].margin:.3g} %"
    if verdict == "UNDECIDED":
        few = group[0].rounds < MINIMUM_ROUNDS
        return f" ({_count(group[0].rounds, 'round')}, {MINIMUM_ROUNDS} are needed)" if few else ""
    sizes = [100 * abs(1 - comparison.ratio) for comparison in group]
    least, most = f"{min(sizes):.1f} %", f"{max(sizes):.1f} %"
    return f" by {least}" if least == most else f" by {least} to {most}"


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
