"""What a tracker is told of the findings: figures that runs can be compared by, and outcomes as tags."""

from collections.abc import Iterator

from pipeline.evidence.summary import Summary
from pipeline.results.table import by_workload
from pipeline.results.verdict import doubts

Figure = tuple[str, float, int]  # key, value, step


def overall_figures(summary: Summary) -> Iterator[Figure]:
    """`overall/<workload>.<arm>`: the geometric mean of its ratios."""
    for ladder, arm, ratio in _means(summary):
        yield f"overall/{ladder}.{arm}", ratio, 0


def arm_figures(summary: Summary, arm: str) -> Iterator[Figure]:
    """Of one arm: its mean, what it compiled, what its changes explain and how long each stage takes alone."""
    for ladder, name, ratio in _means(summary):
        if name == arm:
            yield f"overall/{ladder}", ratio, 0
    for one in summary.findings.compiles:
        if one.arm == arm:
            yield "compiles/kernels", float(one.kernels), 0
            yield "compiles/variants", float(one.variants), 0
            yield "compiles/seconds", one.seconds, 0
            yield "compiles/first_step_seconds", one.first_step, 0
            if one.break_even_launches is not None:
                yield "compiles/break_even_launches", float(one.break_even_launches), 0
    places = _places(summary)
    for one in summary.findings.explanations:
        if one.arm == arm and one.share is not None:
            ladder, step = places[one.case]
            yield f"{ladder}/explained_share", one.share, step
    for one in summary.findings.breakdowns:
        if one.arm == arm:
            ladder, step = places[one.case]
            yield f"{ladder}/limit_share", one.limit / one.step, step
            for stage in one.stages:
                within = f"{stage.within}." if stage.within else ""
                yield f"{ladder}.stage.{within}{stage.stage}_us", 1e6 * stage.seconds, step


def outcome_tags(summary: Summary) -> dict[str, str]:
    """Of the invocation; absent where nothing was asked."""
    found = summary.findings
    tags = {"warnings": "; ".join(doubts(summary)) or "none"}
    if found.machine:
        tags["void_blocks"] = f"{found.machine.void_blocks} of {found.machine.blocks}"
    if found.gate:
        tags["gate"] = "held" if found.gate.held else "NOT HELD"
    if found.claim:
        figures = (found.claim, *found.claim.others)
        tags["claim"] = "; ".join(f"{one.claim} {one.figure}: {one.verdict}" for one in figures)
    if found.self_test:
        smallest = found.self_test.smallest
        finds = "nothing" if smallest is None else f"{100 * smallest:g} %"
        tags["self_test"] = f"{'passed' if found.self_test.passed else 'MISSED'}, finds {finds}"
    return tags


def _places(summary: Summary) -> dict[str, tuple[str, int]]:
    """The ladder of each case, and its place on it."""
    return {
        case.case: (ladder, case.context if len(cases) > 1 else 0)
        for ladder, cases in by_workload(summary).items()
        for case in cases
    }


def _means(summary: Summary) -> Iterator[tuple[str, str, float]]:
    ladders = {(cases[0].workload, cases[0].mode): ladder for ladder, cases in by_workload(summary).items()}
    for one in summary.overall:
        yield ladders[one.workload, one.mode], one.arm, one.comparison.ratio
