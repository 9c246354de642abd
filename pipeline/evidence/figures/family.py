"""Which ratios have a verdict, and how many there are: among so many the error of an experiment is shared out."""

from collections.abc import Iterable, Sequence

from pipeline.work.workload import Case, Request


def primary(requests: Sequence[Request], scope: str) -> str:
    """The metric that a case is judged by first."""
    if scope != "stack":
        return "step"
    return "tpot" if any(request.output_len > 1 for request in requests) else "ttft"


def judged(requests: Sequence[Request], scope: str) -> tuple[str, ...]:
    """TTFT beside TPOT where a request has more of a prompt to be read than its last token."""
    first = primary(requests, scope)
    prefills = any(request.prompt_len - request.cached_len > 1 for request in requests)
    return ("ttft", "tpot") if first == "tpot" and prefills else (first,)


def family(runs: Iterable[tuple[Case, str]], scope: str) -> int:
    """Ratios with a verdict that an arm has in all cases, each given with its mode: those of the metrics that are
    judged, and the mean over the contexts of a workload in a mode, where there are several."""
    cases, ladders = 0, {}
    for case, mode in runs:
        cases += len(judged(case.requests, scope))
        ladder = case.workload, mode, primary(case.requests, scope)
        ladders[ladder] = ladders.get(ladder, 0) + 1
    return cases + sum(contexts > 1 for contexts in ladders.values())
