"""One layer and the oracle on the same weights."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from kernels.layouts import Cache
from pipeline.door.stages import stages
from pipeline.engine import checkpoint
from pipeline.engine.layer import LayerCaches
from pipeline.engine.session import Fed, LayerSession
from pipeline.schema import Config, Kind, Model
from tests.compose import config
from tests.engine.oracle import Oracle, oracle

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Shape:
    """A layer to be compared; repr reproduces it."""

    kind: Kind
    model: str = "tiny"
    overrides: tuple[str, ...] = ()
    seed: int = 0

    def config(self, variant: str, *more: str) -> Config:
        return config(
            "+exp=short_ctx",
            f"model={self.model}",
            "engine=plain",
            "engine.device=cpu",
            f"variant@arms.never={variant}",
            *self.overrides,
            *more,
        )

    def tensors(self, model: Model) -> dict[str, Tensor]:
        drawn = checkpoint.draw(model, self.kind, 1, self.seed, CPU)
        return {name: tensor.float() for name, tensor in drawn.items()}

    def session(
        self,
        variant: str,
        *more: str,
        tensors: dict[str, Tensor] | None = None,
        max_tokens: int = 512,
        max_requests: int = 8,
    ) -> LayerSession:
        made = self.config(variant, *more)
        arm = stages(made.arms["never"])
        tensors = tensors or self.tensors(made.model)
        session = LayerSession(made.model, made.engine, arm, self.kind, tensors, max_tokens, max_requests)
        poison(session.caches)
        return session

    def oracle(self) -> Oracle:
        model = self.config("reference").model
        return oracle(model, self.kind, self.tensors(model))

    def hidden(self, tokens: int, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(1000 * self.seed + seed)
        return torch.randn(tokens, self.config("reference").model.hidden, generator=generator)


def caches_of(caches: LayerCaches) -> Iterator[tuple[str, Cache]]:
    for field in fields(caches):
        if not isinstance(held := getattr(caches, field.name), Tensor | None):
            yield field.name, held


def poison(caches: LayerCaches) -> None:
    """Every byte that nobody writes is part of a NaN."""
    for _, cache in caches_of(caches):
        cache.data.view(torch.uint8).fill_(0xFF)


def fed_in(session: LayerSession, name: str, hidden: Tensor, sizes: list[int]) -> Fed:
    """The outputs of one request, fed alone in pieces of these sizes."""
    return joined([session.feed({name: piece})[name] for piece in hidden.split(sizes)])


def joined(parts: list[Fed]) -> Fed:
    outputs = torch.cat([part.output for part in parts])
    if parts[0].selected is None:
        return Fed(outputs, None)
    width = max(part.selected.shape[1] for part in parts)
    padded = [torch.nn.functional.pad(part.selected, (0, width - part.selected.shape[1]), value=-1) for part in parts]
    return Fed(outputs, torch.cat(padded))


def sets(selected: Tensor) -> list[set[int]]:
    return [set(row.tolist()) - {-1} for row in selected]
