"""Where the time of a step goes, how far that is from the machine's limits, and what explains an effect: Markdown."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import isnan, nan

from pipeline.evidence.costs import Breakdown, Explanation, Roof, StageCost
from pipeline.evidence.findings import Findings
from pipeline.results.report.section import bullets, table
from pipeline.results.table import significant

STAGE_COLUMNS = ("stage", "calls", "µs", "of the step", "limit µs", "of the limit", "bound by", "GB/s", "TFLOP/s")
STAGE_ALIGNMENT = ("---", "--:", "--:", "--:", "--:", "--:", "---", "--:", "--:")
EXPLANATION_COLUMNS = ("case", "arm", "changed", "changed stages µs", "step µs", "share", "explained")
EXPLANATION_ALIGNMENT = ("---", "---", "---", "--:", "--:", "--:", "---")
RANGES = (
    "Share: of the step's difference, where the arm is FASTER or SLOWER. Explained: yes where the share is certainly "
    "from 80 to 125 %, by the ends of both intervals, each of which holds by itself with `measure.confidence`."
)
SIDE_BY_SIDE = "side by side"
OVERLAPS = "Side by side: in one of the two arms stages overlap in a step, and what that is worth no stage alone shows."
COLD = (
    "Where steps are replayed as a graph, each stage is timed behind a read that empties the L2 cache, and the step is "
    "not: stages take longer alone, their shares are too large and the rest is too small, below 0 at times."
)
ELSEWHERE = "Stage by stage: `report.html`."
ANSWERS = {True: "yes", False: "**no**", None: "not certain"}


def stages(findings: Findings, whole: bool = True) -> str:
    """Empty where no case was taken apart; `whole`: with a line for every stage."""
    parts = []
    if findings.explanations:
        parts += ["### Does what changed explain it?", *_explained(findings.explanations)]
    if findings.breakdowns:
        parts += ["### Where a step goes", _legend(findings.roof, findings.breakdowns)]
        cases = dict.fromkeys(found.case for found in findings.breakdowns)
        each = [[found for found in findings.breakdowns if found.case == case] for case in cases]
        parts += map(_case, each) if whole else [bullets(map(_sums, each)), ELSEWHERE]
    return "\n\n".join(parts)


def _explained(found: Sequence[Explanation]) -> list[str]:
    flagged = [f"- `{each.arm}` at `{each.case}`: {each.detail}" for each in found if each.explained is False]
    rows = [
        (
            f"`{each.case}`",
            f"`{each.arm}`",
            ", ".join(each.changed) or "-",
            _range(each.stages, each.stages_low, each.stages_high),
            _range(each.step, each.step_low, each.step_high),
            "-" if each.share is None else _percent(each.share),
            SIDE_BY_SIDE if each.overlaps else ANSWERS[each.explained],
        )
        for each in found
    ]
    warning = ["Alone and in the step not the same:\n\n" + "\n".join(flagged)] if flagged else []
    ranges = f"{RANGES} {OVERLAPS}" if any(each.overlaps for each in found) else RANGES
    return [*warning, table(EXPLANATION_COLUMNS, EXPLANATION_ALIGNMENT, rows), ranges]


def _legend(roof: Roof | None, found: Sequence[Breakdown]) -> str:
    steps = "step" if len(found[0].steps) == 1 else "first and last step"
    cold = f" {COLD}" if any(each.graphed for each in found) else ""
    text = (
        f"The {steps} of each case; every stage alone, summed over the layers. Indented: part of the stage above it. "
        "Behind several arms: measured once, shared. Rest: what the step takes beyond its "
        f"stages, below 0 where they run side by side; where these sum to over 110 % of it they have no shares.{cold}"
    )
    if roof is None:
        return text
    in_graph = f", in a graph {_micro(roof.graph_launch)} µs" if roof.graph_launch else ""
    fp8 = f", {_tera(roof.fp8_flops_per_second)} in fp8" if roof.fp8_flops_per_second else ""
    return (
        f"{text} Limits of this machine in this run: copying {_giga(roof.copy_bytes_per_second)} GB/s read plus write, "
        f"products {_tera(roof.matrix_flops_per_second)} TFLOP/s{fp8}, an empty call {_micro(roof.launch)} "
        f"µs{in_graph}. Limits, GB/s and TFLOP/s count what the task needs, the same for all arms: rows that see no "
        "more entries than are selected need no scores."
    )


def _case(found: Sequence[Breakdown]) -> str:
    """The first arm whole, of every other what it does not have in common with it."""
    first, *others = found
    rows = [_row(stage, f"`{first.arm}`" if others else "") for stage in map(partial(_shown, first), first.stages)]
    rows += [_row(stage, ", ".join(f"`{arm}`" for arm in arms)) for stage, arms in _own(others, first)]
    body = table(STAGE_COLUMNS, STAGE_ALIGNMENT, rows)
    return f"<details><summary>{_sums(found)}</summary>\n\n{body}\n\n</details>"


def _sums(found: Sequence[Breakdown]) -> str:
    sums = [f"{one.arm} {_micro(one.step)} µs, at the limits {_micro(one.limit)}, {_rest(one)}" for one in found]
    return f"{found[0].case}: {'; '.join(sums)}"


def _rest(found: Breakdown) -> str:
    return f"rest {_percent(found.rest / found.step)}" if found.separable else "its stages alone sum to more"


def _shown(found: Breakdown, stage: StageCost) -> StageCost:
    return stage if found.separable else replace(stage, share=nan)


def _own(others: Sequence[Breakdown], first: Breakdown) -> list[tuple[StageCost, list[str]]]:
    """Stages in common were timed once, and differ in their share of the step only: each with its arms."""
    common = [replace(stage, share=0.0) for stage in first.stages]
    found: dict[StageCost, tuple[StageCost, list[str]]] = {}
    for other in others:
        for stage in other.stages:
            bare = replace(stage, share=0.0)
            if bare not in common:
                found.setdefault(bare, (_shown(other, stage), []))[1].append(other.arm)
    return [(replace(stage, share=nan) if len(arms) > 1 else stage, arms) for stage, arms in found.values()]


def _row(stage: StageCost, arms: str) -> tuple[str, ...]:
    indent = "&nbsp;&nbsp;" if stage.within else ""
    of_limit = _percent(stage.limit / stage.seconds) if stage.seconds > 0 else "-"
    return (
        f"{indent}{stage.stage}{f' {arms}' if arms else ''}",
        str(stage.calls),
        _range(stage.seconds, stage.low, stage.high),
        "-" if isnan(stage.share) else f"{100 * stage.share:.1f} %",
        _micro(stage.limit),
        of_limit,
        stage.bound_by,
        _giga(stage.achieved_bytes_per_second),
        _tera(stage.achieved_flops_per_second) if stage.flops else "-",
    )


def _range(seconds: float, low: float | None, high: float | None) -> str:
    return _micro(seconds) if low is None or high is None else f"{_micro(seconds)} [{_micro(low)}, {_micro(high)}]"


def _micro(seconds: float) -> str:
    return significant(1e6 * seconds, 3)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _giga(rate: float) -> str:
    return significant(1e-9 * rate, 3)


def _tera(rate: float) -> str:
    return significant(1e-12 * rate, 3) if rate >= 1e9 else "< 0.001"
