"""What was asked of the result, answered: a Markdown section each, empty where nothing was asked."""

from collections.abc import Iterable, Sequence

from pipeline.evidence.findings import Applies, ClaimOutcome, Crossing, Findings, GateOutcome, Projected, Weighted
from pipeline.results.answers import ABSENT, claimed, effect, figures, ladder, percent, ratio, worth
from pipeline.results.report.section import bullets, table

WEIGHTED = (
    "Time ratio: of the time of all requests within the measured contexts, times between two contexts interpolated, "
    "every request among others of its length; its interval holds whenever those of all contexts do. Whole batches: "
    "the share of batches drawn from it in which every request is short enough: all a rule over the batch can use; "
    "a rule row by row can use what is on the fast path."
)


def gate_section(gate: GateOutcome | None) -> str:
    if gate is None:
        return ""
    title = f"### Gate: {'held' if gate.held else 'NOT HELD'}"
    return "\n\n".join([title, bullets(gate.lines)])


def claim_section(claim: ClaimOutcome | None) -> str:
    if claim is None:
        return ""
    head = ("figure", "published", "found here", "outcome")
    rows = [
        (f"{one.figure} ({one.scope}, {one.metric})", claimed(one), effect(one), f"**{one.verdict}**")
        for one in figures(claim)
    ]
    parts = [f"### Claim: [{claim.claim}]({claim.source})", claim.title, _table(head, rows)]
    for one in figures(claim):
        parts.append(f"*{one.figure}*: {one.reason}. Timed: {one.measured}.")
        if one.differs:
            parts.append("Setting: " + "; ".join(f"`{name}` {text}" for name, text in map(_parted, one.differs)) + ".")
    return "\n\n".join(parts)


def applies_section(applies: Sequence[Applies]) -> str:
    if not applies:
        return ""
    head = ("workload", "arm", "FASTER at", "fast path at", "break-even")
    rows = [(ladder(one), f"`{one.arm}`", _contexts(one.faster), _fast_path(one), _crossings(one)) for one in applies]
    said = "Contexts, of those measured."
    if any(one.fast_path is None for one in applies):
        said += " Not observable: no shortcut that the host takes; what the device takes by itself shows in time alone."
    parts = ["### Where it applies", f"{said}\n\n{_table(head, rows)}"]
    weighted = [(one, it) for one in applies for it in one.weighted]
    if weighted:
        head = (
            "traffic",
            "workload",
            "arm",
            "time ratio, batches of one length",
            "covers",
            "on the fast path",
            "whole batches on it",
        )
        cells = [
            (
                f"`{it.traffic}`", ladder(one), f"`{one.arm}`", f"{it.metric.upper()} {ratio(it)}",
                f"{it.covered:.0%} of {it.counted}", _on_fast_path(it), _batches(it),
            )
            for one, it in weighted
        ]  # fmt: skip
        sources = dict.fromkeys(f"`{it.traffic}`: {it.source}." for _, it in weighted)
        parts += [_table(head, cells), bullets(sources), WEIGHTED]
    return "\n\n".join(parts)


def projected_section(projected: Sequence[Projected]) -> str:
    if not projected:
        return ""
    title = "### What it would be worth in the model"
    if all(one.low is None or one.high is None for one in projected):
        return f"{title}\n\n{worth(Findings(projected=tuple(projected)))[0]}."
    head = ("case", "arm", "of the model's", "worth")
    rows = [
        (
            one.case,
            f"`{one.arm}`",
            f"{one.metric.upper()}, {1e3 * one.model_seconds:.4g} ms",
            ABSENT if one.low is None or one.high is None else f"{percent(one.low)} to {percent(one.high)}",
        )
        for one in projected
    ]
    notes = dict.fromkeys(f"{one.case}: {one.detail}." for one in projected)
    return "\n\n".join([title, _table(head, rows), bullets(notes)])


def _batches(one: Weighted) -> str:
    if one.batches is None:
        return ABSENT
    share = "under 0.1%" if one.batches < 1e-3 else f"{one.batches:.{int(one.batches < 0.1)}%}"
    return f"{share} of batches of {one.batch}"


def _contexts(contexts: Sequence[int]) -> str:
    return ", ".join(f"{context:,}" for context in contexts) or "none"


def _fast_path(one: Applies) -> str:
    return "not observable" if one.fast_path is None else _contexts(one.fast_path)


def _on_fast_path(one: Weighted) -> str:
    return "not observable" if one.on_fast_path is None else f"{one.on_fast_path:.0%}"


def _crossings(one: Applies) -> str:
    if one.undecided and not one.crossings:
        return f"not known: UNDECIDED at {_contexts(one.undecided)}"
    return ", ".join(map(_crossing, one.crossings)) or "none between these contexts"


def _crossing(one: Crossing) -> str:
    between = f"between {one.left:,} and {one.right:,}"
    return between if one.context is None else f"{one.context:,.0f} ({between})"


def _parted(difference: str) -> tuple[str, str]:
    name, _, text = difference.partition(": ")
    return name, text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return table(head, ["---"] * len(head), rows)
