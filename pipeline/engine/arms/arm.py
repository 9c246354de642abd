"""One variant made runnable: the shared weights and inputs, its own caches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from pipeline.engine.batch import StepInputs
from pipeline.engine.caches import fill_prefixes, layer_caches
from pipeline.engine.layer import Layer, LayerCaches, LayerOutput, Stages
from pipeline.engine.plan import Plan
from pipeline.engine.stack import Blueprint
from pipeline.schema import Engine, Kind


class ArmFailed(Exception):
    """What an arm raised where it ran for its turns under the clock; `doing` says what for."""

    def __init__(self, arm: int, step: int, error: Exception, doing: str = "under the clock"):
        super().__init__(f"step {step}: {type(error).__name__}: {error}")
        self.arm, self.doing = arm, doing


class Arm(Protocol):
    """What takes turns under the clock. `prepare` is not timed; `step` does its work `repeats` times.

    `replays`: whether a step that is prepared is replayed from a graph, so that the host can run ahead of the device.
    """

    name: str
    repeats: int

    def prepare(self, step: int) -> None: ...

    def replays(self, step: int) -> bool: ...

    def step(self, step: int) -> Any: ...


@dataclass
class StackArm:
    """All layers of the stack, one after the other.

    Between two layers stands what the whole model would have there, in its cheapest form: residual and norm.
    """

    repeats = 1

    name: str
    blueprint: Blueprint
    stages: Stages
    plan: Plan
    hidden: Sequence[Tensor]  # [T, hidden], one a step
    engine: Engine
    seed: int

    def __post_init__(self) -> None:
        self.blueprint = self.blueprint.prepared(self.stages.project)
        self.layers = self.blueprint.layers(self.stages)
        self.caches: list[LayerCaches] = [
            layer_caches(
                self.blueprint.model, self.engine, kind, self.plan.pools, self.blueprint.dtype, self.blueprint.device
            )
            for kind in self.blueprint.kinds
        ]
        self._filled: set[int] = set()

    def prepare(self, step: int) -> None:
        """Write the cached prefixes of the requests that join in this step."""
        if step in self._filled and not self.plan.reuses_pages:
            return
        self._filled.add(step)
        prefixes = self.plan.prefixes[step]
        for number, (kind, caches) in enumerate(zip(self.blueprint.kinds, self.caches, strict=True)):
            if prefixes:
                fill_prefixes(caches, kind, prefixes, hash((self.seed, number, step)) % 2**63)

    def refill(self) -> None:
        """The prefixes are written again when their steps come."""
        self._filled.clear()

    def with_stages(self, stages: Stages) -> "StackArm":
        """The same arm, caches and all, with other stages; it runs eagerly."""
        other = StackArm.__new__(StackArm)
        other.__dict__.update(self.__dict__, stages=stages, layers=self.blueprint.layers(stages))
        return other

    def replays(self, step: int) -> bool:
        return False

    def surroundings(self, step: int) -> tuple[Stages, Tensor, StepInputs]:
        """What runs a prepared step, and on what: stages, hidden states, inputs."""
        return self.stages, self.hidden[step], self.plan.inputs[step]

    def step(self, step: int) -> list[LayerOutput]:
        """Outputs of every layer. Asynchronous on a GPU."""
        return self.forward(self.layers, self.hidden[step], self.plan.inputs[step])

    def forward(self, layers: Sequence[Layer], x: Tensor, inputs: StepInputs) -> list[LayerOutput]:
        outputs: list[LayerOutput] = []
        shared: dict[Kind, Any] = {}
        for layer, caches in zip(layers, self.caches, strict=True):
            if outputs:
                x = torch.nn.functional.rms_norm(x + outputs[-1].y, x.shape[-1:])
            outputs.append(layer(x, inputs, caches, shared=shared))
        return outputs


@dataclass
class StageArm:
    """One stage alone, called again with the inputs that it had in a run of the stack."""

    repeats = 1

    name: str
    stage: Callable[..., Any]
    calls: Sequence[Sequence[tuple[Any, ...]]]  # the arguments of each call of each step

    def prepare(self, step: int) -> None:
        pass

    def replays(self, step: int) -> bool:
        return False

    def step(self, step: int) -> list[Any]:
        return [self.stage(*arguments) for arguments in self.calls[step]]
