"""One case on the bench: every arm is checked, then those that run take turns under the clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.engine.arm import StackArm
from pipeline.engine.bench import bench, timed
from pipeline.engine.layer import LayerOutput, Stages
from pipeline.engine.stack import Blueprint
from pipeline.evidence.check import TOLERANCES, Checker
from pipeline.evidence.clock import clock_for
from pipeline.evidence.measure import Advance, Rounds, measure
from pipeline.evidence.samples import Samples
from pipeline.evidence.summary import Check
from pipeline.schema import Config
from pipeline.work.schedule import Step
from pipeline.work.workload import Case


@dataclass(frozen=True)
class Examined:
    samples: Samples
    checks: dict[str, Check]  # of every arm, also of those that failed and have no samples


def examine(
    config: Config,
    case: Case,
    steps: Sequence[Step],
    stack: Blueprint,
    arms: Mapping[str, Stages],
    reference: Stages,
    keep: Callable[[Samples], None],
    on_progress: Advance,
) -> Examined | None:
    """An arm that raises or is wrong is not timed; one that is wrong after it was timed gets no figures either.

    None where `scope` is a stage that no arm calls in this case.
    `keep` gets the samples as soon as they are taken, also those of a case that is cut short.
    """
    asked = config.measure
    total = len(arms) + asked.warmup_rounds + asked.rounds
    on_progress(0, total)
    built = bench(config, case, steps, stack, arms, reference)
    checker = Checker(built.reference, TOLERANCES[stack.dtype])
    checks = {}
    for arm in built.arms:
        checks[arm.name] = _checked(checker, arm)
        on_progress(len(checks), total)
    able = [arm for arm in built.arms if checks[arm.name].passed]
    runners = timed(able, asked.scope)
    if able and not runners:
        return None
    whole = asked.scope == "stack"
    paths, recorded = Paths(stack.kinds.count("csa"), steps, len(able)), Rounds(len(steps), len(able))

    def samples(cut_short: bool = False) -> Samples:
        return Samples(
            case=case.name,
            workload=case.workload,
            context=case.context,
            digest=case.digest,
            scope=asked.scope,
            arms=tuple(arm.name for arm in able),
            shortcut=tuple(whole and _has_shortcut(arm, reference) for arm in able),
            seconds=recorded.seconds,
            order=recorded.order,
            rows=paths.rows,
            skipped=paths.skipped,
            scorable=paths.scorable * whole,
            started=recorded.started,
            warmup_rounds=asked.warmup_rounds,
            partial=cut_short,
        )

    try:
        if able:
            measure(
                runners,
                recorded,
                asked.rounds,
                asked.warmup_rounds,
                asked.seconds,
                config.seed,
                clock_for(stack.device),
                paths.note if whole else _ignore,
                lambda done, _: on_progress(len(checks) + done, total),
            )
    except BaseException:
        if len(recorded):
            keep(samples(cut_short=True))
        raise
    keep(samples())
    for arm in able:
        again = _checked(checker, arm)
        checks[arm.name] = again if again.passed else replace(again, detail=f"after it was timed: {again.detail}")
    return Examined(samples(), checks)


class Paths:
    """How many rows each arm did not score, seen in what it returned under the clock."""

    def __init__(self, csa_layers: int, steps: Sequence[Step], arms: int):
        self.rows = np.array([step.tokens for step in steps])
        self.scorable = self.rows * csa_layers
        self.skipped = np.zeros((len(steps), arms), int)

    def note(self, round_: int, step: int, arm: int, outputs: list[LayerOutput]) -> None:
        scored = [output.selection.scored.index for output in outputs if output.kind == "csa"]
        self.skipped[step, arm] = sum(self.rows[step] - len(index) for index in scored if index is not None)


def _has_shortcut(arm: StackArm, reference: Stages) -> bool:
    return type(arm.stages.select.shortcut) is not type(reference.select.shortcut)


def _checked(checker: Checker, arm: StackArm) -> Check:
    try:
        return checker(arm)
    except Exception as error:
        detail = f"could not run: {type(error).__name__}: {error}"
        return Check(False, float("nan"), checker.tolerance.output, detail, ran=False)


def _ignore(*_: Any) -> None:
    pass
