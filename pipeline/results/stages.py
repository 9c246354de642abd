"""Where the time of a step goes, how far that is from the machine's limits, and what explains an effect: Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipeline.evidence.findings import Breakdown, Explanation, Findings, Roof, StageCost
from pipeline.results.table import significant

STAGE_COLUMNS = ("stage", "calls", "µs", "of the step", "limit µs", "of the limit", "bound by", "GB/s", "TFLOP/s")
STAGE_ALIGNMENT = ("---", "--:", "--:", "--:", "--:", "--:", "---", "--:", "--:")
EXPLANATION_COLUMNS = ("case", "arm", "changed", "changed stages µs", "step µs", "share", "explained")
EXPLANATION_ALIGNMENT = ("---", "---", "---", "--:", "--:", "--:", "---")
ANSWERS = {True: "yes", False: "**no**", None: "open"}


def stages(findings: Findings) -> str:
    """Empty where no case was taken apart."""
    parts = []
    if findings.explanations:
        parts += ["### Does what changed explain it?", *_explained(findings.explanations)]
    if findings.breakdowns:
        parts += ["### Where a step goes", _legend(findings.roof, findings.breakdowns[0])]
        cases = dict.fromkeys(found.case for found in findings.breakdowns)
        parts += [_case([found for found in findings.breakdowns if found.case == case]) for case in cases]
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
            ANSWERS[each.explained],
        )
        for each in found
    ]
    warning = ["Not explained by what was changed:\n\n" + "\n".join(flagged)] if flagged else []
    return [*warning, _table(EXPLANATION_COLUMNS, EXPLANATION_ALIGNMENT, rows)]


def _legend(roof: Roof | None, found: Breakdown) -> str:
    steps = "step" if len(found.steps) == 1 else "first and last step"
    text = (
        f"The {steps} of each case; every stage alone, summed over the layers. Indented: part of the stage above it. "
        "Rest: what the step takes beyond its stages."
    )
    if roof is None:
        return text
    fp8 = f", {_tera(roof.fp8_flops)} in fp8" if roof.fp8_flops else ""
    return (
        f"{text} Limits of this machine in this run: copying {_giga(roof.copy_bytes)} GB/s read plus write, products "
        f"{_tera(roof.matrix_flops)} TFLOP/s{fp8}, an empty call {_micro(roof.launch)} µs."
    )


def _case(found: Sequence[Breakdown]) -> str:
    """The first arm whole, of every other what it does not have in common with it."""
    first, *others = found
    sums = [
        f"{each.arm} {_micro(each.step)} µs, at the limits {_micro(each.limit)}, rest {_percent(each.rest / each.step)}"
        for each in found
    ]
    rows = [_row(stage, first.arm if others else "") for stage in first.stages]
    rows += [_row(stage, other.arm) for other in others for stage in _own(other, first)]
    table = _table(STAGE_COLUMNS, STAGE_ALIGNMENT, rows)
    return f"<details><summary>{first.case}: {'; '.join(sums)}</summary>\n\n{table}\n\n</details>"


def _own(arm: Breakdown, first: Breakdown) -> list[StageCost]:
    """Stages in common were timed once, and differ in their share of the step only."""
    common = [replace(stage, share=0.0) for stage in first.stages]
    return [stage for stage in arm.stages if replace(stage, share=0.0) not in common]


def _row(stage: StageCost, arm: str) -> tuple[str, ...]:
    indent = "&nbsp;&nbsp;" if stage.within else ""
    of_limit = _percent(stage.limit / stage.seconds) if stage.seconds > 0 else "-"
    return (
        f"{indent}{stage.stage}{f' `{arm}`' if arm else ''}",
        str(stage.calls),
        _range(stage.seconds, stage.low, stage.high),
        f"{100 * stage.share:.1f} %",
        _micro(stage.limit),
        of_limit,
        stage.bound_by,
        _giga(stage.achieved_bytes),
        _tera(stage.achieved_flops) if stage.flops else "-",
    )


def _table(columns: Sequence[str], alignment: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (columns, alignment, *rows))


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
