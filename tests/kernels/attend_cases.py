"""Inputs of attend that are hard on a kernel: ragged, poisoned, with slots that are no place."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from kernel_cases import poisoned
from torch import Tensor

from kernels.contracts import Keys
from kernels.layouts import Cache

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class AttendCase:
    """Slots hold -1 anywhere, columns past the length anything; rows that no token attends are NaN."""

    tokens: int = 7
    heads: int = 64
    widths: tuple[int, ...] = (128, 512)
    layouts: tuple[str, ...] = ("fp8_ds_mla", "fp8_ds_mla")
    page_sizes: tuple[int, ...] = (64, 64)
    nope: int = 448
    rope: int = 64
    absent: float = 0.2
    first_block_absent: int = 0
    sinks: tuple[float, ...] | None = ()  # empty: drawn
    seed: int = 0
    dtype: torch.dtype = torch.bfloat16
    device: str = "cuda"

    def inputs(self) -> tuple[Tensor, list[Keys], Tensor | None, float]:
        """What Attend is called with."""
        q = 2 * self._normal(self.tokens, self.heads, self.nope + self.rope)
        sink = None if self.sinks is None else self._normal(self.heads)
        if self.sinks:
            sink = torch.tensor(self.sinks, device=self.device)
        sources = zip(self.widths, self.layouts, self.page_sizes, strict=True)
        keys = [self._source(*source, seed) for seed, source in enumerate(sources)]
        return q.to(self.dtype), keys, sink, (self.nope + self.rope) ** -0.5

    def _normal(self, *shape: int, seed: int = 0) -> Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(self.seed + seed)).to(self.device)

    def _source(self, width: int, layout: str, page_size: int, seed: int) -> Keys:
        generator = torch.Generator().manual_seed(100 * self.seed + seed)
        rows = 4 * max(width, 16) + 3 * page_size
        cache = poisoned(layout, -(-rows // page_size), page_size, self.nope, self.rope, self.device)
        places = torch.randint(1, rows - page_size, (self.tokens, width), generator=generator)
        places[torch.rand(places.shape, generator=generator) < self.absent] = -1
        places[:, : self.first_block_absent] = -1
        lengths = torch.randint(0, width + 1, (self.tokens,), generator=generator)
        lengths[1::2] = width
        looked_at = torch.arange(width) < lengths[:, None]
        used = places[looked_at & (places >= 0)].unique()
        insert(cache, used.to(self.device), self._normal(len(used), cache.width, seed=seed + 1))
        junk = torch.tensor([INT_MIN, -2, 0, rows - 1, INT_MAX])
        junk = junk[torch.randint(0, 5, places.shape, generator=generator)]
        slots = torch.where(looked_at, places, junk)
        return Keys(cache, slots.int().to(self.device), lengths.int().to(self.device))


def insert(cache: Cache, slots: Tensor, rows: Tensor) -> None:
    """Not in torch's deterministic mode, whose scatter copies the overlapping views that an fp8 cache is written by."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    cache.insert(slots, rows)
    torch.use_deterministic_algorithms(deterministic, warn_only=True)


def replayed_long(attend: Callable[..., Tensor], inputs: tuple[Tensor, list[Keys], Tensor | None, float]) -> Tensor:
    """Of a graph that was captured with lengths of 1, replayed with those of the inputs."""
    keys = inputs[1]
    full = [source.lengths.clone() for source in keys]
    for source in keys:
        source.lengths.fill_(1)
    attend(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attend(*inputs)
    for source, lengths in zip(keys, full, strict=True):
        source.lengths.copy_(lengths)
    graph.replay()
    return out
