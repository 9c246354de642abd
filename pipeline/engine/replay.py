"""One stage taken out of a run of the stack, to be timed alone on the inputs that it really had."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pipeline.engine.arm import StackArm, StageArm
from pipeline.engine.layer import Stages
from pipeline.engine.select import Select
from pipeline.schema import ConfigError


class Recorder:
    """A stage that remembers what it was called with."""

    def __init__(self, stage: Callable[..., Any]):
        self.stage = stage
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> Any:
        self.calls.append(arguments)
        return self.stage(*arguments)


def stage_arms(arms: Sequence[StackArm], scope: str) -> list[StageArm]:
    """Stage `scope` of every arm, on what the first arm's stage is called with in one pass over the steps.

    ConfigError where that arm never calls the stage.
    """
    source = arms[0]
    recorder = Recorder(_stage(source.stages, scope))
    recording = source.with_stages(_replaced(source.stages, scope, recorder))
    calls = []
    for step in range(len(source.plan.inputs)):
        recorder.calls = []
        recording.prepare(step)
        recording.step(step)
        calls.append(tuple(recorder.calls))
    if not any(calls):
        raise ConfigError([f"measure.scope={scope}: arm {source.name} never calls this stage in this workload"])
    return [StageArm(arm.name, _stage(arm.stages, scope), calls) for arm in arms]


def _stage(stages: Stages, scope: str) -> Callable[..., Any]:
    return getattr(stages.select if scope in Select.parts() else stages, scope)


def _replaced(stages: Stages, scope: str, stage: Callable[..., Any]) -> Stages:
    if scope in Select.parts():
        return replace(stages, select=replace(stages.select, **{scope: stage}))
    return replace(stages, **{scope: stage})
