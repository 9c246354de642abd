"""Is what was published true here? A figure at a time, by what the comparison's interval allows.

The interval is widened by the noise floor. With the claimed effect c, a tolerance t, and effects on the time counted
positive in the direction of c:

    REPRODUCED           the effect is real in the direction of c (the verdict says so), c - t to c + t is possible, and
                         nothing outside it is, or nothing outside c / 2 to 3 c / 2
    CONTRADICTED         nothing of c - t to c + t is possible: the size differs, or the direction too
    NOT DECIDABLE HERE   anything else; where it would be contradicted but for a setting that was not told, or is
                         another here; and always where the figure is of something else than what was timed

A figure that is a bound is reproduced where nothing beyond it by more than t is possible, contradicted where all is.
One of no change (c = 0) is reproduced by no change within margin and t. What is counted instead of timed depends on no
setting. A figure of a whole model is never reproduced by its layers. What they gain bounds what a model gains whose
other parts stay as they are: that is told as the reason.
"""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.evidence.answers.applies import seconds
from pipeline.evidence.answers.found import Found, effect, found, possible, scope
from pipeline.evidence.answers.model import bound
from pipeline.evidence.answers.setting import differences, not_told, setting, unlike
from pipeline.evidence.answers.words import among, percent, signed
from pipeline.evidence.findings import ClaimOutcome
from pipeline.evidence.summary import Comparison, Summary
from pipeline.questions import Claim, Figure
from pipeline.schema import Config

REPRODUCED, CONTRADICTED, NOT_DECIDABLE = "REPRODUCED", "CONTRADICTED", "NOT DECIDABLE HERE"
LEADS = (CONTRADICTED, REPRODUCED, NOT_DECIDABLE)


def judged(claim: Claim, summary: Summary, config: Config, gpu: str | None) -> ClaimOutcome:
    """The figure that is contradicted, else one that is reproduced, else the first."""
    outcomes = [_judged(claim, figure, summary, config, gpu) for figure in claim.figures]
    head = min(outcomes, key=lambda one: LEADS.index(one.verdict))
    return replace(head, others=tuple(one for one in outcomes if one is not head))


def _judged(claim: Claim, figure: Figure, summary: Summary, config: Config, gpu: str | None) -> ClaimOutcome:
    here = {case.case: setting(config, case, summary.layers, gpu) for case in summary.cases}
    published = {**claim.setting, **(figure.setting or {}), **(figure.must or {})}
    held = found(figure, summary, here, kind=bool(not_told(published)))
    outcome = ClaimOutcome(
        claim=claim.name,
        source=claim.source,
        metric=figure.metric,
        claimed=figure.delta,
        found=None,
        found_low=None,
        found_high=None,
        verdict=NOT_DECIDABLE,
        reason="",
        differs=(),
        title=claim.title,
        figure=figure.what,
        scope=figure.scope,
        measured=scope(summary),
        bound=figure.bound or "",
        published=figure.published and figure.published.seconds,
    )
    if isinstance(held, str):
        return replace(outcome, reason=held, differs=tuple(differences(published, here[summary.cases[0].case])))
    comparison, case = held.comparison, held.case
    verdict, reason = _verdict(figure, held, summary, config, unlike(published, here[case.case]))
    return replace(
        outcome,
        found=comparison.ratio - 1,
        found_low=None if comparison.low is None else comparison.low - 1,
        found_high=None if comparison.high is None else comparison.high - 1,
        verdict=verdict,
        reason=reason,
        differs=tuple(differences(published, here[case.case])),
        measured=f"{held.arm} against {summary.baseline}, {comparison.metric} of {scope(summary)}, case {case.case}",
        times=_times(held, summary),
    )


def _times(held: Found, summary: Summary) -> tuple[float, float] | None:
    times = [seconds(held.case, arm, held.comparison.metric) for arm in (summary.baseline, held.arm)]
    return None if None in times else tuple(times)


def _verdict(figure: Figure, held: Found, summary: Summary, config: Config, unlike: Sequence[str]) -> tuple[str, str]:
    if held.comparison.low is None or held.comparison.high is None:
        return NOT_DECIDABLE, f"{held.comparison.rounds} rounds give no interval"
    if figure.compiling:
        return NOT_DECIDABLE, _compiling(held.arm, summary)
    if figure.scope == "model":
        return NOT_DECIDABLE, bound(figure, held, summary, config)
    judge = _bounded if figure.bound else _sized if figure.delta else _unchanged
    verdict, reason = judge(figure, held)
    if verdict == CONTRADICTED and unlike and figure.metric != "compiles":
        return NOT_DECIDABLE, f"{reason}; not comparable: {', '.join(unlike)}"
    return verdict, reason


def _sized(figure: Figure, held: Found) -> tuple[str, str]:
    claimed, (least, most) = abs(figure.delta), effect(figure, held.comparison)
    lowest, highest = claimed - figure.tolerance, claimed + figure.tolerance
    real = held.comparison.verdict == ("FASTER" if figure.delta < 0 else "SLOWER")
    said = f"{among(least, most)} is possible here{_which(held)}, {percent(claimed)} was claimed"
    if most < lowest or least > highest:
        if real:
            return CONTRADICTED, f"the direction holds, the size differs: {said}"
        return CONTRADICTED, f"at most {percent(most)} is possible here{_which(held)}, {percent(claimed)} was claimed"
    within = lowest <= least and most <= highest
    if real and (within or (claimed / 2 <= least and most <= 1.5 * claimed)):
        return REPRODUCED, said
    return NOT_DECIDABLE, f"too wide or too near to nothing to tell: {said}{_more(held.comparison)}"


def _bounded(figure: Figure, held: Found) -> tuple[str, str]:
    low, high = (end - 1 for end in possible(held.comparison))
    said = f"{signed(low, high)} is possible here{_which(held)}, {figure.bound} {signed(figure.delta)} was claimed"
    if figure.bound == "at least":
        inside, outside = low >= figure.delta - figure.tolerance, high < figure.delta - figure.tolerance
    else:
        inside, outside = high <= figure.delta + figure.tolerance, low > figure.delta + figure.tolerance
    if inside or outside:
        return (REPRODUCED if inside else CONTRADICTED), said
    return NOT_DECIDABLE, f"{said}{_more(held.comparison)}"


def _unchanged(figure: Figure, held: Found) -> tuple[str, str]:
    allowed = max(figure.tolerance, held.comparison.margin)
    low, high = possible(held.comparison)
    if 1 - allowed <= low and high <= 1 + allowed:
        return REPRODUCED, f"the same within {percent(allowed)}{_which(held)}"
    if high < 1 - allowed or low > 1 + allowed:
        return CONTRADICTED, f"it differs by more than {percent(allowed)}{_which(held)}"
    return NOT_DECIDABLE, f"the interval is not within {percent(allowed)}{_which(held)}{_more(held.comparison)}"


def _compiling(arm: str, summary: Summary) -> str:
    counted = [
        f"{one.arm} compiled {one.variants} variants in {one.seconds:.2g} s"
        for one in summary.findings.compiles
        if one.arm in (arm, summary.baseline)
    ]
    said = "the figure is of a server that compiles while it serves, no step that is timed here compiles anything"
    return "; ".join([said, *counted])


def _which(held: Found) -> str:
    return f", in the {'nearest' if held.kind else 'farthest'} of {held.others + 1} cases" if held.others else ""


def _more(comparison: Comparison) -> str:
    return f"; about {comparison.rounds_needed} rounds would decide" if comparison.rounds_needed else ""
