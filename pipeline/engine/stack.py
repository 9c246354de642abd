"""The layers that an experiment builds, with their weights."""

from dataclasses import dataclass, replace

import torch

from kernels import rope
from kernels.contracts import Project
from pipeline.engine import checkpoint, weights
from pipeline.engine.layer import Layer, Stages
from pipeline.schema import Config, Engine, Kind, Model

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True)
class Blueprint:
    """Everything of a stack but the stages: shared by all arms."""

    model: Model
    kinds: tuple[Kind, ...]
    numbers: tuple[int, ...]  # of the layers in the model's schedule
    weights: tuple[weights.LayerWeights, ...]
    ropes: dict[Kind, rope.Rope]
    dtype: torch.dtype
    device: torch.device

    def layers(self, stages: Stages) -> list[Layer]:
        return [
            Layer(kind, self.model, held, self.ropes[kind], stages)
            for kind, held in zip(self.kinds, self.weights, strict=True)
        ]

    def prepared(self, project: Project) -> "Blueprint":
        """With the projections in the form that an arm multiplies with."""
        return replace(self, weights=tuple(weights.prepared(held, project) for held in self.weights))

    def float32(self) -> "Blueprint":
        """The same weights for the reference's arithmetic."""
        return replace(self, weights=tuple(weights.float32(held) for held in self.weights), dtype=torch.float32)


def schedule(model: Model, engine: Engine) -> list[tuple[int, Kind]]:
    """Number and kind of each layer: the first of a kind, the first n, or all."""
    numbered = list(enumerate(model.schedule))
    if engine.layers == "all":
        return numbered
    if isinstance(engine.layers, int):
        return numbered[: engine.layers]
    return [next(((number, kind) for number, kind in numbered if kind == engine.layers), (0, engine.layers))]


def described(model: Model, engine: Engine) -> str:
    """The stack in words: csa, first 4 of 43, all 43."""
    total = len(model.schedule)
    if engine.layers == "all":
        return f"all {total}"
    return f"first {engine.layers} of {total}" if isinstance(engine.layers, int) else engine.layers


def rope_tables(model: Model, kinds: set[Kind], length: int, device: torch.device) -> dict[Kind, rope.Rope]:
    """Layers that compress use their own base and YaRN for every rotation; window layers plain RoPE."""
    return {
        kind: rope.table(model.rope_theta, model.rope_dim, length, device=device)
        if kind == "swa"
        else rope.table(model.compress_rope_theta, model.rope_dim, length, model.yarn, device=device)
        for kind in kinds
    }


def blueprint(config: Config, length: int) -> Blueprint:
    """The stack of a resolved config for positions below `length`. ConfigError names what a weights file lacks."""
    model, engine = config.model, config.engine
    device, dtype = torch.device(engine.device), DTYPES[engine.dtype]
    numbers, kinds = zip(*schedule(model, engine), strict=True)

    def tensors(number: int, kind: Kind) -> dict[str, torch.Tensor]:
        if engine.weights is None:
            return checkpoint.draw(model, kind, engine.tp, config.seed * 1009 + number, device)
        loaded = checkpoint.load(engine.weights, number, checkpoint.shapes(model, kind))
        return checkpoint.shard(loaded, model, kind, engine.tp)

    held = tuple(
        weights.assemble(tensors(number, kind), model, dtype, device)
        for number, kind in zip(numbers, kinds, strict=True)
    )
    return Blueprint(model, kinds, numbers, held, rope_tables(model, set(kinds), length, device), dtype, device)
