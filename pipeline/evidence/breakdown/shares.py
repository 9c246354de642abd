"""Where the step of an arm goes, and how far each stage is from what the machine could do."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pipeline.evidence.breakdown.apart import Apart, PartTimes
from pipeline.evidence.costs import Breakdown, Roof, StageCost
from pipeline.evidence.samples import Samples
from pipeline.evidence.stats import Rule, mean_interval
from pipeline.fields import STAGES

Row = tuple[str, str | None]  # a stage, and the one that it is a part of


def breakdowns(apart: Apart, samples: Samples, roof: Roof, rule: Rule, arms: Sequence[str]) -> tuple[Breakdown, ...]:
    """Of these arms, as far as they were timed; `samples` are those of the whole steps."""
    return tuple(_breakdown(apart, samples, roof, rule, arm) for arm in arms if arm in samples.arms)


def rows_of(apart: Apart, arm: str) -> dict[Row, list[PartTimes]]:
    """The parts of an arm, those of all kinds of layers together; whole stages in the order of a layer."""
    found: dict[Row, list[PartTimes]] = {}
    for part in apart.parts:
        if arm in part.arms:
            found.setdefault((part.place.stage, part.place.within), []).append(part)
    return {row: found[row] for row in sorted(found, key=_place_in_layer)}


def steps_of(apart: Apart, samples: Samples, arm: str) -> np.ndarray:
    """[round]: seconds of the arm's whole step, the mean over the steps taken apart."""
    number = samples.arms.index(arm)
    return samples.seconds[samples.counts][:, list(apart.steps), number].mean(axis=1)


def stage_rule(rule: Rule) -> Rule:
    """For stages, of which every round counts by itself."""
    return replace(rule, block_rounds=1)


def _place_in_layer(row: Row) -> tuple[int, bool, int]:
    stage, within = row
    return STAGES.index(within or stage), within is not None, STAGES.index(stage)


def _breakdown(apart: Apart, samples: Samples, roof: Roof, rule: Rule, arm: str) -> Breakdown:
    step = float(steps_of(apart, samples, arm).mean())
    stages = tuple(_stage(row, parts, step, roof, rule) for row, parts in rows_of(apart, arm).items())
    whole = [stage for stage in stages if stage.within is None]
    return Breakdown(
        case=apart.case,
        arm=arm,
        step=step,
        stages=stages,
        rest=step - sum(stage.seconds for stage in whole),
        steps=apart.steps,
        bytes_limit=sum(stage.bytes for stage in whole) / roof.copy_bytes_per_second,
        graphed=any(part.graphed.any() for part in apart.parts),
    )


def _stage(row: Row, parts: Sequence[PartTimes], step: float, roof: Roof, rule: Rule) -> StageCost:
    seconds = sum(part.seconds for part in parts).mean(axis=1)
    low, high = mean_interval(seconds, stage_rule(rule)) or (None, None)
    calls = sum(part.calls for part in parts)
    moving = [part.bytes / roof.copy_bytes_per_second for part in parts]
    computing = [_computing(part, roof) for part in parts]
    limits = {"bytes": float(sum(moving).mean()), "flops": float(sum(computing).mean())}
    limits["launch"] = float(sum(_launching(part, roof) for part in parts).mean())
    return StageCost(
        stage=row[0],
        calls=int(calls.max()),
        seconds=float(seconds.mean()),
        low=low,
        high=high,
        bytes=round(sum(part.bytes for part in parts).mean()),
        flops=round(sum(part.flops for part in parts).mean()),
        limit=float(sum(np.maximum(*both) for both in zip(moving, computing, strict=True)).mean()),
        bound_by=max(limits, key=limits.get),
        share=float(seconds.mean()) / step,
        within=row[1],
    )


def _launching(part: PartTimes, roof: Roof) -> np.ndarray:
    """[step]: seconds of as many calls that do nothing, in a graph or not as the part is."""
    in_graph = roof.launch if roof.graph_launch is None else roof.graph_launch
    return part.calls * np.where(part.graphed, in_graph, roof.launch)


def _computing(part: PartTimes, roof: Roof) -> np.ndarray:
    """[step]: seconds at the machine's matrix rates."""
    in_fp8 = roof.fp8_flops_per_second or roof.matrix_flops_per_second
    return (part.flops - part.fp8_flops) / roof.matrix_flops_per_second + part.fp8_flops / in_fp8
