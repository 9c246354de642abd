"""What was asked of the result, answered in plain lines."""

from pipeline.evidence.findings import Applies, ClaimOutcome, Findings, Weighted

ABSENT = "-"
UNITS = (("us", 1e6), ("ms", 1e3), ("s", 1.0))


def lines(findings: Findings) -> list[str]:
    """The traffic and the claim's figures."""
    found = [
        f"{ladder(one)}, {one.arm} over {it.traffic}: {it.metric.upper()} {ratio(it)}, of {it.covered:.0%} of its "
        f"{it.counted}"
        for one in findings.applies
        for it in one.weighted
    ]
    for one in figures(findings.claim):
        found.append(
            f"claim {one.claim} {one.verdict}: {one.figure}: published {claimed(one)}, found {effect(one)}; "
            f"{one.reason}"
        )
    return found


def worth(findings: Findings) -> list[str]:
    """The projections: a line each, or one where nothing can be projected."""
    known = [one for one in findings.projected if one.low is not None and one.high is not None]
    if findings.projected and not known:
        return ["Not projected: " + "; ".join(dict.fromkeys(one.detail for one in findings.projected))]
    return [
        f"worth in the model, {one.arm} at {one.case}: {one.metric.upper()} {percent(one.low)} to {percent(one.high)}"
        for one in known
    ]


def figures(claim: ClaimOutcome | None) -> tuple[ClaimOutcome, ...]:
    return (claim, *claim.others) if claim else ()


def claimed(one: ClaimOutcome) -> str:
    """`-15.1 % (7.5 to 6.37 us)`"""
    bound = f"{one.bound} " if one.bound else ""
    return f"{bound}{percent(one.claimed)}{_times(one.published)}"


def effect(one: ClaimOutcome) -> str:
    if one.found is None:
        return ABSENT
    if one.found_low is None or one.found_high is None or one.found_low == one.found_high:
        return f"{percent(one.found)}{_times(one.times)}"
    return f"{percent(one.found)} [{100 * one.found_low:+.1f}, {100 * one.found_high:+.1f}]{_times(one.times)}"


def percent(share: float) -> str:
    digits = 1 if abs(share) >= 0.01 or share == 0 else 2
    return f"{100 * share:+.{digits}f} %"


def _times(seconds: tuple[float, float] | None) -> str:
    if seconds is None:
        return ""
    unit, scale = next((unit, scale) for unit, scale in UNITS if max(seconds) * scale < 1000 or unit == "s")
    before, after = (f"{scale * each:.4g}" for each in seconds)
    return f" ({before} to {after} {unit})"


def ratio(one: Weighted) -> str:
    interval = "" if one.low is None or one.high is None else f" [{one.low:.3f}, {one.high:.3f}]"
    return f"{one.ratio:.3f}{interval}"


def ladder(one: Applies) -> str:
    return f"{one.workload} ({one.mode})" if one.mode else one.workload
