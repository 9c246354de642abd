"""Is what was published true here? A figure at a time, by what the comparison's interval allows.

The interval is widened by the noise floor. With the claimed effect c, a tolerance t, and effects on the time counted
positive in the direction of c:

    REPRODUCED           the effect is real in the direction of c (the verdict says so), more than c / 2 for certain,
                         and c - t or more is possible
    CONTRADICTED         c - t or more is not possible, unless what decides it was not published
    NOT DECIDABLE HERE   anything else; and always where the figure is of something else than what was timed

A figure of a whole model is never reproduced by its layers. What they gain bounds what a model gains whose other parts
stay as they are: that is told as the reason. A figure of no change (c = 0) is reproduced by SAME within margin and t.
"""

from dataclasses import replace

from pipeline.evidence.findings import ClaimOutcome
from pipeline.evidence.found import Found, found, scope
from pipeline.evidence.setting import differences, setting
from pipeline.evidence.summary import Comparison, Summary
from pipeline.questions import Claim, Figure
from pipeline.schema import Config

REPRODUCED, CONTRADICTED, NOT_DECIDABLE = "REPRODUCED", "CONTRADICTED", "NOT DECIDABLE HERE"


def judged(claim: Claim, summary: Summary, config: Config, gpu: str | None) -> ClaimOutcome:
    """The first figure that can be decided here; if none can, the first."""
    outcomes = [_judged(claim, figure, summary, config, gpu) for figure in claim.figures]
    head = next((one for one in outcomes if one.verdict != NOT_DECIDABLE), outcomes[0])
    return replace(head, others=tuple(one for one in outcomes if one is not head))


def _judged(claim: Claim, figure: Figure, summary: Summary, config: Config, gpu: str | None) -> ClaimOutcome:
    here = {case.case: setting(config, case, summary.layers, gpu) for case in summary.cases}
    held = found(figure, summary, here)
    if isinstance(held, str):
        verdict, reason, comparison, case = NOT_DECIDABLE, held, None, summary.cases[0].case
        measured = scope(summary)
    else:
        comparison, case = held.comparison, held.case.case
        verdict, reason = _verdict(figure, held, summary)
        measured = f"{held.arm} against {summary.baseline}, {comparison.metric} of {scope(summary)}, case {case}"
    low, high = (None, None) if comparison is None else (comparison.low, comparison.high)
    published = {**claim.setting, **(figure.setting or {}), **(figure.must or {})}
    return ClaimOutcome(
        claim=claim.name,
        source=claim.source,
        metric=figure.metric,
        claimed=figure.delta,
        found=None if comparison is None else comparison.ratio - 1,
        found_low=None if low is None else low - 1,
        found_high=None if high is None else high - 1,
        verdict=verdict,
        reason=reason,
        differs=tuple(differences(published, here[case])),
        title=claim.title,
        figure=figure.what,
        scope=figure.scope,
        measured=measured,
    )


def _verdict(figure: Figure, held: Found, summary: Summary) -> tuple[str, str]:
    comparison = held.comparison
    if comparison.low is None or comparison.high is None:
        return NOT_DECIDABLE, f"{comparison.rounds} rounds give no interval"
    if figure.compiling:
        return NOT_DECIDABLE, _compiling(held.arm, summary)
    if figure.scope == "model":
        return NOT_DECIDABLE, _bound(figure, comparison, scope(summary))
    if figure.delta == 0:
        return _unchanged(figure, comparison)
    least, most = _effect(figure, comparison)
    which = "most" if figure.untold else "least"
    where = f", the {which} of {held.others + 1} cases" if held.others else ""
    claimed = abs(figure.delta)
    if most < claimed - figure.tolerance:
        said = f"at most {_percent(most)} is possible here{where}, {_percent(claimed)} was claimed"
        if figure.untold:
            return NOT_DECIDABLE, f"{said}; {', '.join(figure.untold)}, which was not told, decides it"
        return CONTRADICTED, said
    if least <= claimed / 2 or comparison.verdict != ("FASTER" if figure.delta < 0 else "SLOWER"):
        more = f"; about {comparison.rounds_needed} rounds would decide" if comparison.rounds_needed else ""
        return NOT_DECIDABLE, f"the interval is too wide or too near to nothing to tell {_percent(claimed)}{more}"
    size = "more than claimed" if least > claimed + figure.tolerance else "the claimed size is possible"
    possible = _percent(least) if least == most else f"{_percent(least)} to {_percent(most)} with the noise floor"
    return REPRODUCED, f"{size}: {possible}{where}"


def _compiling(arm: str, summary: Summary) -> str:
    counted = [
        f"{one.arm} compiled {one.variants} variants in {one.seconds:.2g} s"
        for one in summary.findings.compiles
        if one.arm in (arm, summary.baseline)
    ]
    said = "the figure is of a server that compiles while it serves, no step that is timed here compiles anything"
    return "; ".join([said, *counted])


def _effect(figure: Figure, comparison: Comparison) -> tuple[float, float]:
    """Least and most that is possible, positive in the direction of the claim."""
    noise = 1 + (comparison.noise or 0.0)
    low, high = comparison.low / noise, comparison.high * noise
    return (low - 1, high - 1) if figure.delta > 0 else (1 - high, 1 - low)


def _unchanged(figure: Figure, comparison: Comparison) -> tuple[str, str]:
    allowed = max(figure.tolerance, comparison.margin)
    if 1 - allowed <= comparison.low and comparison.high <= 1 + allowed:
        return REPRODUCED, f"the same within {_percent(allowed)}"
    least, most = _effect(figure, comparison)
    if most < -allowed or least > allowed:
        return CONTRADICTED, f"it differs by more than {_percent(allowed)}"
    return NOT_DECIDABLE, f"the interval is not within {_percent(allowed)}"


def _bound(figure: Figure, comparison: Comparison, scope: str) -> str:
    """What a layer's difference allows a model's to be."""
    least, most = _effect(figure, comparison)
    claimed = abs(figure.delta)
    said = f"the figure is of a whole model behind a server, here {scope} was timed ({comparison.metric})"
    if figure.delta == 0:
        return said
    if most < claimed:
        return (
            f"{said}: it differs by at most {_percent(max(most, 0.0))} in that direction, so that in this setting a "
            f"model in which nothing else changes cannot differ by {_percent(claimed)}"
        )
    if least <= 0:
        return f"{said}: no effect in that direction is certain"
    return (
        f"{said}: a model in which nothing else changes differs by {_percent(claimed)} only if what was timed takes "
        f"{_range(claimed / most, claimed / least)} of its time"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.3g} %"


def _range(low: float, high: float) -> str:
    if high >= 1:
        return f"at least {low:.0%}"
    return f"about {low:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{low:.0%} to {high:.0%}"
