"""What was asked of the result, answered: a Markdown section each, empty where nothing was asked, and plain lines."""

from collections.abc import Iterable, Sequence

from pipeline.evidence.findings import Applies, ClaimOutcome, Findings, GateOutcome, Projected, Weighted

ABSENT = "-"
WEIGHTED = (
    "Time ratio: of the time of all requests within the measured contexts, times between two contexts interpolated, "
    "every request among others of its length; its interval holds whenever those of all contexts do. Whole batches: "
    "the share of batches drawn from it in which every request is short enough: all a rule over the batch can use; "
    "a rule row by row can use what is on the fast path."
)


def lines(findings: Findings) -> list[str]:
    """The traffic and the claim's figures."""
    found = [
        f"{_ladder(one)}, {one.arm} over {it.traffic}: {it.metric.upper()} {_weighted(it)}, of {it.covered:.0%} of its "
        f"{it.counted}"
        for one in findings.applies
        for it in one.weighted
    ]
    for one in _figures(findings.claim):
        found.append(f"claim {one.claim} {one.verdict}: {one.figure}: {_sides(one)}; {one.reason}")
    return found


def gate_section(gate: GateOutcome | None) -> str:
    if gate is None:
        return ""
    title = f"### Gate: {'held' if gate.held else 'NOT HELD'}"
    return "\n\n".join([title, "\n".join(f"- {line}" for line in gate.lines)])


def claim_section(claim: ClaimOutcome | None) -> str:
    if claim is None:
        return ""
    head = ("figure", "published", "found here", "outcome")
    rows = [
        (f"{one.figure} ({one.scope}, {one.metric})", _percent(one.claimed), _found(one), f"**{one.verdict}**")
        for one in _figures(claim)
    ]
    parts = [f"### Claim: [{claim.claim}]({claim.source})", claim.title, _table(head, rows)]
    for one in _figures(claim):
        parts.append(f"*{one.figure}*: {one.reason}. Timed: {one.measured}.")
        if one.differs:
            parts.append("Setting: " + "; ".join(f"`{name}` {text}" for name, text in map(_parted, one.differs)) + ".")
    return "\n\n".join(parts)


def applies_section(applies: Sequence[Applies]) -> str:
    if not applies:
        return ""
    head = ("workload", "arm", "FASTER at", "fast path at", "break-even")
    rows = [
        (_ladder(one), f"`{one.arm}`", _contexts(one.faster), _contexts(one.fast_path), _break_even(one))
        for one in applies
    ]
    parts = ["### Where it applies", f"Contexts, of those measured.\n\n{_table(head, rows)}"]
    weighted = [(one, it) for one in applies for it in one.weighted]
    if weighted:
        head = ("traffic", "workload", "arm", "time ratio", "of", "on the fast path", "whole batches on it")
        cells = [
            (
                f"`{it.traffic}`", _ladder(one), f"`{one.arm}`", f"{it.metric.upper()} {_weighted(it)}",
                f"{it.covered:.0%} of {it.counted}", f"{it.on_fast_path:.0%}", _batches(it),
            )
            for one, it in weighted
        ]  # fmt: skip
        sources = dict.fromkeys(f"`{it.traffic}`: {it.source}." for _, it in weighted)
        parts += [_table(head, cells), "\n".join(f"- {source}" for source in sources), WEIGHTED]
    return "\n\n".join(parts)


def projected_section(projected: Sequence[Projected]) -> str:
    if not projected:
        return ""
    head = ("case", "arm", "of the model's", "worth")
    rows = [
        (
            one.case,
            f"`{one.arm}`",
            f"{one.metric.upper()}, {1e3 * one.model_seconds:.4g} ms",
            ABSENT if one.low is None or one.high is None else f"{_percent(one.low)} to {_percent(one.high)}",
        )
        for one in projected
    ]
    notes = dict.fromkeys(f"- {one.case}: {one.detail}." for one in projected)
    return "\n\n".join(["### What it would be worth in the model", _table(head, rows), "\n".join(notes)])


def _figures(claim: ClaimOutcome | None) -> tuple[ClaimOutcome, ...]:
    return (claim, *claim.others) if claim else ()


def _sides(one: ClaimOutcome) -> str:
    return f"published {_percent(one.claimed)}, found {_found(one)}"


def _found(one: ClaimOutcome) -> str:
    if one.found is None:
        return ABSENT
    if one.found_low is None or one.found_high is None:
        return _percent(one.found)
    return f"{_percent(one.found)} [{100 * one.found_low:+.1f}, {100 * one.found_high:+.1f}]"


def _percent(share: float) -> str:
    digits = 1 if abs(share) >= 0.01 or share == 0 else 2
    return f"{100 * share:+.{digits}f} %"


def _weighted(one: Weighted) -> str:
    interval = "" if one.low is None or one.high is None else f" [{one.low:.3f}, {one.high:.3f}]"
    return f"{one.ratio:.3f}{interval}"


def _batches(one: Weighted) -> str:
    if one.batches is None:
        return ABSENT
    share = "under 0.1%" if one.batches < 1e-3 else f"{one.batches:.{int(one.batches < 0.1)}%}"
    return f"{share} of batches of {one.batch}"


def _ladder(one: Applies) -> str:
    return f"{one.workload} ({one.mode})" if one.mode else one.workload


def _contexts(contexts: Sequence[int]) -> str:
    return ", ".join(f"{context:,}" for context in contexts) or "none"


def _break_even(one: Applies) -> str:
    if one.break_even is None or one.between is None:
        return "none found"
    return f"{one.break_even:,.0f} (between {one.between[0]:,} and {one.between[1]:,})"


def _parted(difference: str) -> tuple[str, str]:
    name, _, text = difference.partition(": ")
    return name, text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))
