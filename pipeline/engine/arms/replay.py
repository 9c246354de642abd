"""One stage taken out of a run of the stack, to be timed alone on the inputs that it really had."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kernels.contracts import Cover
from pipeline.engine.arms.arm import ArmFailed, StackArm, StageArm
from pipeline.engine.layer import Prefill, Stages
from pipeline.engine.select import Select

Calls = list[tuple[tuple[Any, ...], ...]]  # the arguments of each call of each step


class Recorder:
    """A stage that remembers what it was called with."""

    def __init__(self, stage: Callable[..., Any]):
        self.stage = stage
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> Any:
        self.calls.append(arguments)
        return self.stage(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)


def stage_arms(arms: Sequence[StackArm], scope: str) -> list[StageArm]:
    """Stage `scope` of every arm, on what it is called with in the first arm that calls it; none where no arm does.

    Arms that lay out their keys in another way, gathered or at another width, have inputs of their own. The inputs are
    those of one pass over the steps, held until the arms are dropped. ArmFailed names the arm that raised.
    """
    found: dict[tuple[bool, Cover], Calls] = {}
    for number, arm in enumerate(arms):
        layout = _layout(arm.stages)
        if layout not in found and _stage(arm.stages, scope) and any(calls := _calls(number, arm, scope)):
            found[layout] = calls
    if not found:
        return []
    first = next(iter(found.values()))
    return [StageArm(arm.name, _stage(arm.stages, scope), found.get(_layout(arm.stages), first)) for arm in arms]


def _layout(stages: Stages) -> tuple[bool, Cover]:
    return stages.prefill is None, stages.cover


def _calls(number: int, source: StackArm, scope: str) -> Calls:
    """The arguments of each call of each step."""
    recorder = Recorder(_stage(source.stages, scope))
    recording = source.with_stages(_replaced(source.stages, scope, recorder))
    calls = []
    for step in range(len(source.plan.inputs)):
        recorder.calls = []
        try:
            recording.prepare(step)
            recording.step(step)
        except Exception as error:
            raise ArmFailed(number, step, error, f"to record what {scope} is called with") from error
        calls.append(tuple(recorder.calls))
    return calls


def _stage(stages: Stages, scope: str) -> Callable[..., Any] | None:
    """None where the arm has no such stage."""
    group = _group(scope)
    return getattr(getattr(stages, group) if group else stages, scope, None)


def _replaced(stages: Stages, scope: str, stage: Callable[..., Any]) -> Stages:
    group = _group(scope)
    if group:
        return replace(stages, **{group: replace(getattr(stages, group), **{scope: stage})})
    return replace(stages, **{scope: stage})


def _group(scope: str) -> str | None:
    """What a stage is a part of."""
    return next((name for name, kind in (("select", Select), ("prefill", Prefill)) if scope in kind.parts()), None)
