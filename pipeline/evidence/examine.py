"""One case on the bench: every arm is checked, then those that run take turns under the clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.engine.arm import StackArm
from pipeline.engine.bench import bench, timed
from pipeline.engine.layer import LayerOutput, Stages
from pipeline.engine.stack import Blueprint
from pipeline.evidence.check import TOLERANCES, Checker
from pipeline.evidence.clock import clock_for
from pipeline.evidence.measure import OnProgress, measure
from pipeline.evidence.samples import Samples
from pipeline.evidence.summary import Check
from pipeline.schema import Config
from pipeline.work.schedule import Step
from pipeline.work.workload import Case


@dataclass(frozen=True)
class Examined:
    samples: Samples
    checks: dict[str, Check]  # of every arm, also of those that could not run and have no samples


def examine(
    config: Config,
    case: Case,
    steps: Sequence[Step],
    stack: Blueprint,
    arms: Mapping[str, Stages],
    reference: Stages,
    on_progress: OnProgress,
) -> Examined:
    """An arm that raises has failed its check and is not timed. One with wrong results is, but gets no figures."""
    built, scope = bench(config, case, steps, stack, arms, reference), config.measure.scope
    total = len(built.arms) + config.measure.warmup_rounds + config.measure.rounds
    checker = Checker(built.reference, TOLERANCES[stack.dtype])
    checks = {}
    for arm in built.arms:
        checks[arm.name] = _checked(checker, arm)
        on_progress(len(checks), total)
    able = [arm for arm in built.arms if checks[arm.name].ran]
    paths = Paths(stack.kinds.count("csa"), steps, len(able))
    timing = measure(
        timed(able, scope),
        len(steps),
        config.measure.rounds,
        config.measure.warmup_rounds,
        config.measure.seconds,
        config.seed,
        clock_for(stack.device),
        paths.note if scope == "stack" else _ignore,
        lambda done, _: on_progress(len(checks) + done, total),
    )
    samples = Samples(
        case=case.name,
        workload=case.workload,
        context=case.context,
        digest=case.digest,
        scope=scope,
        arms=tuple(arm.name for arm in able),
        shortcut=tuple(scope == "stack" and _has_shortcut(arm, reference) for arm in able),
        seconds=timing.seconds,
        order=timing.order,
        rows=paths.rows,
        skipped=paths.skipped,
        scorable=paths.scorable if scope == "stack" else np.zeros_like(paths.scorable),
        started=timing.started,
        warmup_rounds=config.measure.warmup_rounds,
    )
    return Examined(samples, checks)


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
