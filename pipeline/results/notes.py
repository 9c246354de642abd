"""What a terminal says of a run below its tables, as plain lines."""

from collections.abc import Iterator

from pipeline.evidence.costs import Breakdown
from pipeline.evidence.findings import Findings
from pipeline.evidence.summary import Summary
from pipeline.results.table import by_workload

MOST_ARMS = 6
MOST_STAGES = 3
MOST_DEMANDS = 4


def stage_lines(summary: Summary) -> Iterator[str]:
    """The largest stages of a step at the longest context of each workload."""
    found: dict[str, list[Breakdown]] = {}
    for breakdown in summary.findings.breakdowns:
        found.setdefault(breakdown.case, []).append(breakdown)
    for ladder, cases in by_workload(summary).items():
        known = [case for case in cases if case.case in found]
        if not known:
            continue
        yield f"Stages in {ladder} at {known[-1].context:,}, share of the step (and times what it needs at best):"
        arms = found[known[-1].case][:MOST_ARMS]
        width = max(len(breakdown.arm) for breakdown in arms)
        for breakdown in arms:
            yield f"  {breakdown.arm:{width}}  {_shares(breakdown)}"


def _shares(breakdown: Breakdown) -> str:
    if not breakdown.separable:
        return "alone they sum to more than the step: noise"
    largest = sorted(breakdown.whole, key=lambda stage: -stage.seconds)[:MOST_STAGES]
    parts = [
        f"{stage.stage} {stage.share:.0%}{f' ({stage.seconds / stage.limit:,.0f}x)' if stage.limit > 0 else ''}"
        for stage in largest
    ]
    return ", ".join(parts)


def compile_lines(findings: Findings) -> Iterator[str]:
    told = [
        f"{one.arm} {one.kernels} kernels in {one.variants} forms, {1e3 * one.seconds:,.0f} ms"
        for one in findings.compiles
        if one.variants
    ]
    if told:
        yield f"Compiled: {'; '.join(told)}"


def outlier_lines(summary: Summary) -> Iterator[str]:
    count = sum(count for case in summary.cases for count in case.outliers.values())
    rounds = sum(case.rounds * len(case.arms) for case in summary.cases)
    if count:
        yield f"Outliers: {count:,} of {rounds:,} rounds are far from their arm's others; all of them count."


def demand_lines(findings: Findings) -> Iterator[str]:
    """What a gate that is not held was violated by."""
    if findings.gate is None or findings.gate.held:
        return
    *demands, _ = findings.gate.lines
    yield from (f"  {line}" for line in demands[:MOST_DEMANDS])
    if len(demands) > MOST_DEMANDS:
        yield f"  and {len(demands) - MOST_DEMANDS} more, see the report"
