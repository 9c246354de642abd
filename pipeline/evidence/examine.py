"""One case on the bench: every arm is checked, then those that run take turns under the clock."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pipeline.engine.arms.arm import ArmFailed, StackArm
from pipeline.engine.arms.bench import Arms, bench, timed
from pipeline.evidence.attempt import Attempt, Listeners, design
from pipeline.evidence.breakdown.apart import Apart, take_apart
from pipeline.evidence.check import Checker, tolerance
from pipeline.evidence.samples import Samples
from pipeline.evidence.summary import Check
from pipeline.evidence.timing.clock import Clock, clock_for
from pipeline.evidence.timing.compiles import Compiling, Counted
from pipeline.evidence.timing.instruments import Instruments
from pipeline.evidence.timing.modes import Trial
from pipeline.evidence.timing.shared import Shared


@dataclass(frozen=True)
class Examined:
    samples: Samples
    checks: dict[str, Check]  # of every arm, also of those that failed and have no samples
    apart: Apart | None = None  # of the sound arms; None where their stages were not timed


def examine(trial: Trial, arms: Arms, listeners: Listeners, beside: Instruments | None = None) -> Examined | None:
    """An arm that raises or is wrong is not timed; one that is wrong after it was timed gets no figures either.

    Where an arm raises under the clock, the others begin anew. None where `scope` is a stage that no arm calls in this
    case.
    """
    config, asked, beside = trial.config, trial.config.measure, beside or Instruments()
    total = len(arms.stages) + design(trial).total
    listeners.on_progress(0, total)
    built = bench(config, trial.case, trial.steps, arms)
    checker, shared = Checker(built.reference), Shared(trial, arms.stack, built.reference)
    checks = {}
    for arm in built.arms:
        checks[arm.name] = _checked(checker, arm, beside.compiling, shared)
        listeners.on_progress(len(checks), total)
    able = [arm for arm in built.arms if checks[arm.name].passed]
    clock = clock_for(arms.stack.device, asked.l2 == "cold")
    after_checks = replace(listeners, on_progress=lambda done, _: listeners.on_progress(len(checks) + done, total))
    measured, number = None, 0
    while measured is None:
        number += 1
        try:
            runners = [Counted(arm, beside.compiling) for arm in timed(able, asked.scope, asked.l2 == "cold")]
            if able and not runners:
                beside.left_out.append(f"{trial.case.name}: no arm calls {asked.scope} in it")
                return None
            measured = Attempt(number, trial, arms, able, beside).taken(runners, clock, after_checks)
        except ArmFailed as failed:
            broken = able.pop(failed.arm)
            written = _restored(shared, built.arms)
            more = f"; by then {written}, which all arms share, had been written to" if written else ""
            checks[broken.name] = _failed(broken, f"could not run {failed.doing}: {failed}{more}")
    listeners.on_progress(total, total)
    listeners.keep(measured)
    beside.compiling.note(measured)
    written = _restored(shared, built.arms)
    for arm in able:
        again = _checked(checker, arm, beside.compiling, shared)
        checks[arm.name] = again if again.passed else replace(again, detail=f"after it was timed: {again.detail}")
    if written and all(checks[arm.name].passed for arm in able):
        detail = f"{written}, which all arms share, changed while they were timed, and none of them did it again"
        checks |= {arm.name: _failed(arm, detail) for arm in able}
    sound = [arm for arm in able if checks[arm.name].passed]
    apart = _apart(trial, sound, clock, listeners.keep, beside) if sound else None
    return Examined(measured, checks, apart)


def _apart(
    trial: Trial, arms: Sequence[StackArm], clock: Clock, keep: Callable[[Samples], None], beside: Instruments
) -> Apart | None:
    """None where it is not asked for or cannot be had: a case does not fail for it."""
    if trial.config.measure.scope != "stack" or not trial.config.measure.breakdown:
        return None
    try:
        return take_apart(trial, arms, clock, keep, beside)
    except Exception as error:
        beside.left_out.append(f"{trial.case.name}: no breakdown, {type(error).__name__}: {error}")
        print(beside.left_out[-1], file=sys.stderr)
        return None


def _checked(checker: Checker, arm: StackArm, compiling: Compiling, shared: Shared) -> Check:
    try:
        with compiling.seeing_launches(arm.name):
            compiling.first_step(arm)
            found = checker(arm)
    except Exception as error:
        found = _failed(arm, f"could not run: {type(error).__name__}: {error}")
    written = _restored(shared, [arm])
    if not written:
        return found
    checker.forget()
    return _failed(arm, f"writes to {written}, which all arms share")


def _restored(shared: Shared, arms: Sequence[StackArm]) -> str:
    """What was written to, or nothing; then the arms' caches may hold what came of it."""
    written = shared.written()
    for arm in arms if written else ():
        arm.refill()
    return written


def _failed(arm: StackArm, detail: str) -> Check:
    return Check(False, float("nan"), tolerance(arm).output, detail, ran=False)
