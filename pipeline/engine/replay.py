"""One stage taken out of a run of the stack, to be timed alone on the inputs that it really had."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pipeline.engine.arm import StackArm, StageArm
from pipeline.engine.layer import Stages
from pipeline.engine.select import Select


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
    """Stage `scope` of every arm, all on what it is called with in the first arm that calls it; none where no arm does.

    The inputs are those of one pass over the steps, held until the arms are dropped.
    """
    for source in arms:
        calls = _calls(source, scope)
        if any(calls):
            return [StageArm(arm.name, _stage(arm.stages, scope), calls) for arm in arms]
    return []


def _calls(source: StackArm, scope: str) -> list[tuple[tuple[Any, ...], ...]]:
    """The arguments of each call of each step."""
    recorder = Recorder(_stage(source.stages, scope))
    recording = source.with_stages(_replaced(source.stages, scope, recorder))
    calls = []
    for step in range(len(source.plan.inputs)):
        recorder.calls = []
        recording.prepare(step)
        recording.step(step)
        calls.append(tuple(recorder.calls))
    return calls


def _stage(stages: Stages, scope: str) -> Callable[..., Any]:
    return getattr(stages.select if scope in Select.parts() else stages, scope)


def _replaced(stages: Stages, scope: str, stage: Callable[..., Any]) -> Stages:
    if scope in Select.parts():
        return replace(stages, select=replace(stages.select, **{scope: stage}))
    return replace(stages, **{scope: stage})
