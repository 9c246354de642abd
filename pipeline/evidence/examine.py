"""One case on the bench: every arm is checked, then those that run take turns under the clock."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pipeline.engine.arms.arm import Arm, StackArm
from pipeline.engine.arms.bench import bench, timed
from pipeline.engine.layer import LayerOutput, Stages
from pipeline.engine.stack import Blueprint
from pipeline.evidence.breakdown.apart import Apart, take_apart
from pipeline.evidence.check import Checker, tolerance
from pipeline.evidence.samples import Samples
from pipeline.evidence.stats import MINIMUM_BLOCKS
from pipeline.evidence.summary import Check
from pipeline.evidence.timing.clock import Clock, clock_for
from pipeline.evidence.timing.compiles import Compiling, Counted
from pipeline.evidence.timing.instruments import Instruments
from pipeline.evidence.timing.measure import Advance, ArmFailed, Rounds, measure
from pipeline.evidence.timing.shared import SharedWeights
from pipeline.schema import Config
from pipeline.work.schedule import Step
from pipeline.work.workload import Case


@dataclass(frozen=True)
class Examined:
    samples: Samples
    checks: dict[str, Check]  # of every arm, also of those that failed and have no samples
    apart: Apart | None = None  # of the sound arms; None where their stages were not timed


def examine(
    config: Config,
    case: Case,
    steps: Sequence[Step],
    stack: Blueprint,
    arms: Mapping[str, Stages],
    reference: Stages,
    keep: Callable[[Samples], None],
    on_progress: Advance,
    mode: str = "",
    decided: Callable[[Samples], bool] = lambda _: False,
    beside: Instruments | None = None,
) -> Examined | None:
    """An arm that raises or is wrong is not timed; one that is wrong after it was timed gets no figures either.

    Where an arm raises under the clock, the others begin anew.

    None where `scope` is a stage that no arm calls in this case.
    `keep` gets the samples as soon as they are taken, also those of a case that is cut short or of an attempt that was
    given up. `decided` is asked after each block whether those so far are enough.
    """
    asked, beside = config.measure, beside or Instruments()
    total = len(arms) + asked.warmup_rounds + asked.rounds
    on_progress(0, total)
    built = bench(config, case, steps, stack, arms, reference)
    checker, weights = Checker(built.reference), SharedWeights(config, stack)
    checks = {}
    for arm in built.arms:
        checks[arm.name] = _checked(checker, arm, beside.compiling, weights)
        on_progress(len(checks), total)
    able = [arm for arm in built.arms if checks[arm.name].passed]
    clock = clock_for(stack.device, asked.l2 == "cold")
    take = partial(_taken, config, case, steps, stack, reference, keep, mode, decided, beside, clock)
    measured, attempt = None, 0
    while measured is None:
        attempt += 1
        runners = [Counted(arm, beside.compiling) for arm in timed(able, asked.scope, asked.l2 == "cold")]
        if able and not runners:
            beside.left_out.append(f"{case.name}: no arm calls {asked.scope} in it")
            return None
        try:
            measured = take(attempt, able, runners, lambda done, _: on_progress(len(checks) + done, total))
        except ArmFailed as failed:
            broken = able.pop(failed.arm)
            checks[broken.name] = _failed(broken, f"could not run under the clock: {failed}")
    on_progress(total, total)
    keep(measured)
    beside.compiling.note(measured)
    written = weights.written()
    for arm in able:
        again = _checked(checker, arm, beside.compiling, weights)
        checks[arm.name] = again if again.passed else replace(again, detail=f"after it was timed: {again.detail}")
    if written and all(checks[arm.name].passed for arm in able):
        detail = f"{written}, which all arms share, changed while they were timed, and none of them did it again"
        checks |= {arm.name: _failed(arm, detail) for arm in able}
    sound = [arm for arm in able if checks[arm.name].passed]
    apart = _apart(config, case, steps, sound, clock, keep, mode, beside) if sound else None
    return Examined(measured, checks, apart)


def _taken(
    config: Config,
    case: Case,
    steps: Sequence[Step],
    stack: Blueprint,
    reference: Stages,
    keep: Callable[[Samples], None],
    mode: str,
    decided: Callable[[Samples], bool],
    beside: Instruments,
    clock: Clock,
    attempt: int,
    able: Sequence[StackArm],
    runners: Sequence[Arm],
    on_progress: Advance,
) -> Samples:
    """The samples of the runners, one for each arm that is able. `keep` gets those of a case that is cut short."""
    asked, whole = config.measure, config.measure.scope == "stack"
    paths, recorded = Paths(stack.kinds.count("csa"), steps, len(able)), Rounds(len(steps), len(able))

    def samples(cut_short: bool = False, given_up: bool = False) -> Samples:
        return Samples(
            case=case.name,
            workload=case.workload,
            context=case.context,
            digest=case.digest,
            scope=asked.scope,
            arms=tuple(arm.name for arm in able),
            shortcut=tuple(whole and _has_shortcut(arm, reference) for arm in able),
            seconds=recorded.seconds,
            late=tuple(recorded.late) if any(recorded.late) else (),
            order=recorded.order,
            rows=paths.rows,
            skipped=paths.skipped,
            scorable=paths.scorable * whole,
            started=recorded.started,
            warmup_rounds=asked.warmup_rounds,
            partial=cut_short,
            mode=mode,
            block_rounds=asked.block_rounds,
            void=tuple(recorded.void) if any(recorded.void) else (),
            least_sound=min(asked.rounds, MINIMUM_BLOCKS * asked.block_rounds),
            clock_mhz=beside.watch.clock_mhz,
            given_up=attempt if given_up else 0,
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
                clock,
                paths.note if whole else _ignore,
                on_progress,
                asked.block_rounds,
                beside.watch.edges_of(case.name),
                on_block=lambda _: decided(samples()),
            )
    except BaseException as error:
        if len(recorded):
            keep(samples(cut_short=True, given_up=isinstance(error, ArmFailed)))
        raise
    return samples()


class Paths:
    """How many rows each arm did not score, seen in what it returned under the clock."""

    def __init__(self, csa_layers: int, steps: Sequence[Step], arms: int):
        self.rows = np.array([step.tokens for step in steps])
        self.scorable = self.rows * csa_layers
        self.skipped = np.zeros((len(steps), arms), int)

    def note(self, round_: int, step: int, arm: int, outputs: list[LayerOutput]) -> None:
        scored = [output.selection.scored.index for output in outputs if output.kind == "csa"]
        self.skipped[step, arm] = sum(self.rows[step] - len(index) for index in scored if index is not None)


def _apart(
    config: Config,
    case: Case,
    steps: Sequence[Step],
    arms: Sequence[StackArm],
    clock: Clock,
    keep: Callable[[Samples], None],
    mode: str,
    beside: Instruments,
) -> Apart | None:
    """None where it is not asked for or cannot be had: a case does not fail for it."""
    if config.measure.scope != "stack" or not config.measure.breakdown:
        return None
    try:
        return take_apart(config, case, steps, arms, clock, keep, mode, beside)
    except Exception as error:
        beside.left_out.append(f"{case.name}: no breakdown, {type(error).__name__}: {error}")
        print(beside.left_out[-1], file=sys.stderr)
        return None


def _has_shortcut(arm: StackArm, reference: Stages) -> bool:
    return type(arm.stages.select.shortcut) is not type(reference.select.shortcut)


def _checked(checker: Checker, arm: StackArm, compiling: Compiling, weights: SharedWeights) -> Check:
    try:
        with compiling.seeing_launches(arm.name):
            compiling.first_step(arm)
            found = checker(arm)
    except Exception as error:
        found = _failed(arm, f"could not run: {type(error).__name__}: {error}")
    written = weights.written()
    if not written:
        return found
    checker.forget()
    return _failed(arm, f"writes to {written}, which all arms share")


def _failed(arm: StackArm, detail: str) -> Check:
    return Check(False, float("nan"), tolerance(arm).output, detail, ran=False)


def _ignore(*_: Any) -> None:
    pass
