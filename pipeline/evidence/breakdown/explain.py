"""Is the effect on the step that of the stages which an arm changed?

What the changed stages save in a step, timed alone, is held against what the step saves: per launch, times launches in
a step. Their quotient is the share explained. Its range is the widest that the two intervals allow, each of them at the
rule's confidence by itself: wider than an interval of the share would be, and seldom wrong when it decides. A published
gain of 1.01 ms a token from a kernel that saves 1.13 us in each of 41 launches explains 4.6 % of itself.

    explained    the whole range lies between EXPLAINS and EXPLAINS_ALL
    no           the whole range lies outside
    open         anything else

Stages that run side by side save what no stage alone shows, and hide some of what a stage saves: where one of the two
arms has two streams nothing is held against its stages.

Only what the case calls FASTER or SLOWER is held against its stages: of equal arms some differ by chance in the steps
that were taken apart.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

import numpy as np

from pipeline.evidence.breakdown.apart import Apart
from pipeline.evidence.breakdown.shares import Row, rows_of, stage_rule, steps_of
from pipeline.evidence.costs import Explanation
from pipeline.evidence.samples import Samples
from pipeline.evidence.stats import Rule, mean_interval
from pipeline.schema import Variant

EXPLAINS, EXPLAINS_ALL = 0.8, 1.25  # of the step's difference; alone a stage does not meet the caches of a step
REAL = ("FASTER", "SLOWER")
SIDE_BY_SIDE = "stages run side by side, and what that is worth no stage alone shows"
TOUCHES = {
    "shortcut": ("select",),
    "score": ("score",),
    "topk": ("topk",),
    "locate": ("locate",),
    "share": ("cover", "combine"),
    "cover": ("cover", "attend"),
    "streams": (),
}  # what reads other columns is touched by what makes them
PREFILL = ("select", "cover", "gather", "combine", "attend")  # what runs otherwise where prompts are gathered


def explanations(
    apart: Apart,
    samples: Samples,
    variants: Mapping[str, Variant],
    rule: Rule,
    baseline: str,
    verdicts: Mapping[str, str],
) -> tuple[Explanation, ...]:
    """Of every candidate that was timed; none without a baseline. `variants`: of all arms but the control.

    `verdicts`: of the arms that are compared in the case.
    """
    if baseline not in samples.arms:
        return ()
    found = []
    before = steps_of(apart, samples, baseline)
    for arm, variant in variants.items():
        if arm == baseline or arm not in samples.arms:
            continue
        stages, delta = _delta(apart, arm, baseline, changed(variant, variants[baseline]))
        step = steps_of(apart, samples, arm) - before
        if variant.streams != variants[baseline].streams:
            stages = (*stages, "streams")
        overlaps = max(variant.streams, variants[baseline].streams) > 1
        verdict = verdicts.get(arm, "not compared")
        found.append(explain(apart.case, arm, stages, delta, step, rule, verdict, overlaps))
    return tuple(found)


def explain(
    case: str,
    arm: str,
    stages: tuple[str, ...],
    delta: np.ndarray,
    step: np.ndarray,
    rule: Rule,
    verdict: str,
    overlaps: bool = False,
) -> Explanation:
    """delta [round] of the changed stages in a step, step [round] of the whole step, seconds, paired by round each.

    `overlaps`: in one of the two arms stages run side by side.
    """
    of_stages, of_step = float(delta.mean()), float(step.mean())
    stages_low, stages_high = mean_interval(delta, stage_rule(rule)) or (None, None)
    step_low, step_high = mean_interval(step, rule) or (None, None)
    share, explained, detail = None, None, "too few rounds to tell"
    if stages_low is not None and step_low is not None:
        differs = verdict in REAL and not step_low <= 0 <= step_high and not overlaps
        share = of_stages / of_step if differs else None
        least, most = _range((stages_low, stages_high), (step_low, step_high)) if differs else (0.0, 0.0)
        explained = _explained(least, most) if differs else None
        nothing = "the steps taken apart do not surely differ" if verdict in REAL else f"{verdict}: nothing to explain"
        nothing = f"{verdict}: {SIDE_BY_SIDE}" if verdict in REAL and overlaps else nothing
        detail = _detail(stages, of_stages, of_step, share, least, most, nothing)
    return Explanation(
        case=case,
        arm=arm,
        changed=stages,
        stages=of_stages,
        stages_low=stages_low,
        stages_high=stages_high,
        step=of_step,
        step_low=step_low,
        step_high=step_high,
        share=share,
        explained=explained,
        detail=detail,
        overlaps=overlaps,
    )


def changed(one: Variant, other: Variant) -> tuple[str, ...]:
    """Stages that two variants do not do alike. A part of select counts by itself; with the shortcut all of it does."""
    touched = [name for field in _differing(one, other) for name in TOUCHES.get(field, (field,))]
    if (one.prefill is None) != (other.prefill is None):
        touched += PREFILL
    return tuple(dict.fromkeys(name for name in touched if name != "prefill"))


def _differing(one: Variant, other: Variant) -> Iterator[str]:
    for field in fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if mine == theirs:
            continue
        if is_dataclass(mine) and is_dataclass(theirs):
            yield from _differing(mine, theirs)
        else:
            yield field.name


def _delta(apart: Apart, arm: str, baseline: str, stages: tuple[str, ...]) -> tuple[tuple[str, ...], np.ndarray]:
    """Those of the stages that run in the case, and what they take in a step beyond the baseline's [round]."""
    after, before = rows_of(apart, arm), rows_of(apart, baseline)
    rows = [row for row in {**before, **after} if _counts(row, stages)]
    seconds = [
        sign * part.seconds.mean(axis=1)
        for row in rows
        for sign, parts in ((1, after.get(row, ())), (-1, before.get(row, ())))
        for part in parts
    ]
    rounds = len(apart.parts[0].seconds)
    return tuple(dict.fromkeys(stage for stage, _ in rows)), sum(seconds, np.zeros(rounds))


def _counts(row: Row, stages: tuple[str, ...]) -> bool:
    """A part does not count beside the whole that it belongs to."""
    stage, within = row
    return stage in stages and within not in stages


def _range(stages: tuple[float, float], step: tuple[float, float]) -> tuple[float, float]:
    """The least and the most of the step's difference that the stages may explain. The step's does not hold 0."""
    corners = [some / other for some in stages for other in step]
    return min(corners), max(corners)


def _explained(least: float, most: float) -> bool | None:
    if most < EXPLAINS or least > EXPLAINS_ALL:
        return False
    return True if least >= EXPLAINS and most <= EXPLAINS_ALL else None


def _detail(
    stages: tuple[str, ...],
    of_stages: float,
    of_step: float,
    share: float | None,
    least: float,
    most: float,
    nothing: str,
) -> str:
    """`nothing`: what to say where there is no share."""
    names = ", ".join(stages)
    if share is None:
        kernel = f"; {names} alone: {_said(of_stages)} a step" if stages else ""
        return f"{nothing}{kernel}"
    if not stages:
        return f"nothing that was changed runs here, and the step differs by {_said(of_step)}"
    sum_ = f"{names}: {_said(of_stages)} of {_said(of_step)} a step, {100 * share:.3g} %"
    if _explained(least, most) is None:
        return f"{sum_}; too noisy to tell, between {100 * least:.0f} and {100 * most:.0f} %"
    if least > EXPLAINS_ALL:
        return f"{sum_}; what was changed makes a larger difference alone than in the step"
    return f"{sum_}; the rest of the difference does not come from what was changed" if most < EXPLAINS else sum_


def _said(seconds: float) -> str:
    unit, scale = ("ms", 1e3) if abs(seconds) >= 1e-3 else ("µs", 1e6)
    return f"{scale * seconds:+.3g} {unit}"
