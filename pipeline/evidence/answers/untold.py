"""Traffics of which an experiment tells nothing, and why."""

from collections.abc import Iterator, Mapping, Sequence

from pipeline.evidence.findings import Applies
from pipeline.schema import Workload
from pipeline.work.traffic import Drawn


def untold(traffic: Mapping[str, Drawn], found: Sequence[Applies], workloads: Mapping[str, Workload]) -> Iterator[str]:
    """A line for each workload and reason."""
    lines: dict[str, list[str]] = {}
    for name, said in _silent(traffic, found, workloads):
        lines.setdefault(said, []).append(name)
    return (f"traffic {', '.join(names)}{said}" for said, names in lines.items())


def _silent(
    traffic: Mapping[str, Drawn], found: Sequence[Applies], workloads: Mapping[str, Workload]
) -> Iterator[tuple[str, str]]:
    ladders = {(one.workload, one.mode): [] for one in found}
    for one in found:
        ladders[one.workload, one.mode].append(one)
    for name, drawn in traffic.items():
        if not ladders:
            yield name, ": no arm is compared at two contexts of a workload"
        for (workload, mode), arms in ladders.items():
            if not any(it.traffic == name for arm in arms for it in arm.weighted):
                measured = max((arm.measured for arm in arms), key=len)
                why = _why(drawn, workloads[workload].decodes, measured)
                yield name, f" over {workload}{f' ({mode})' if mode else ''}: {why}"


def _why(drawn: Drawn, decodes: bool, measured: Sequence[int]) -> str:
    if len(measured) < 2:
        return "fewer than two contexts have a ratio"
    if not len((drawn.decodes if decodes else drawn.prompts).contexts):
        return "none of its requests has a decode step"
    return f"none of its {'decode steps' if decodes else 'requests'} lies within {measured[0]:,} to {measured[-1]:,}"
