"""What the tests of select share: implementations of a part, a step with filled index cache, the parts in a row."""

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from kernel_cases import poisoned, ragged_rows, rope_for, runs_on_gpu_only, shuffled_table
from torch import Tensor

import kernels.select
from kernels.contracts import Batch, Pages, Rows
from kernels.layouts import Cache
from kernels.rope import Rope
from kernels.select import reference

PARTS = {"score": "Score", "topk": "TopK", "shortcut": "Shortcut", "locate": "Locate"}
NAN, INF = float("nan"), float("inf")


def implementations(part: str) -> dict[str, Any]:
    """Every torch implementation of a part but its reference, by its file's name. The others have their own tests."""
    files = sorted(Path(kernels.select.__path__[0]).glob(f"{part}_*.py"))
    names = [file.stem for file in files if not runs_on_gpu_only(file)]
    return {name: getattr(import_module(f"kernels.select.{name}"), PARTS[part])() for name in names}


def definition(part: str) -> Any:
    return getattr(reference, PARTS[part])()


@dataclass(frozen=True)
class Step:
    batch: Batch
    pages: Pages
    rope: Rope
    q: Tensor
    weights: Tensor
    cache: Cache
    ratio: int

    @property
    def width(self) -> int:
        return self.batch.max_seq_len // self.ratio

    def scores(self, score: Any) -> Tensor:
        return self._scores(score, self.q, self.weights, self.batch.rows)

    def slots(self, shortcut: Any, score: Any, topk: Any, locate: Any, k: int) -> tuple[Tensor, Tensor]:
        scored = shortcut(self.batch, self.ratio, k)
        rows = self.batch.rows
        if scored.skips_all:
            return locate(None, scored, rows, self.pages, self.ratio, k)
        index = slice(None) if scored.index is None else scored.index
        scores = self._scores(score, self.q[index], self.weights[index], rows.take(index))
        chosen = topk(scores, rows.take(index).visible(self.ratio), k)
        return locate(chosen, scored, rows, self.pages, self.ratio, k)

    def _scores(self, score: Any, q: Tensor, weights: Tensor, rows: Rows) -> Tensor:
        return score(q, weights, self.rope, rows, self.cache, self.pages, self.ratio, self.width)


@dataclass(frozen=True)
class Case:
    """Requests whose tokens [start, stop) are in the step; what their caches do not hold is poison."""

    spans: tuple[tuple[int, int], ...]
    ratio: int = 4
    page_size: int = 4
    layout: str = "fp32"
    dtype: torch.dtype = torch.float32
    heads: int = 3
    channels: int = 16
    rotated: int = 8
    padding: int = 0
    seed: int = 0

    def entries(self) -> list[Tensor]:
        """float32 [entries, channels] of each request. A request's values depend on where it ends, not on its place."""
        return [self._random(stop, stop // self.ratio, self.channels) for _, stop in self.spans]

    def rows(self, device: str) -> Rows:
        return ragged_rows(list(self.spans), self.padding, device)

    def pages(self, device: str) -> Pages:
        columns = -(-max(stop for _, stop in self.spans) // (self.ratio * self.page_size))
        block_table = shuffled_table(len(self.spans), columns, self.seed, device)
        for row, (_, stop) in enumerate(self.spans):
            block_table[row, -(-stop // (self.ratio * self.page_size)) :] = 0
        return Pages(block_table, self.page_size, torch.full((len(self.rows(device).positions),), -1, device=device))

    def batch(self, device: str) -> Batch:
        counts = torch.tensor([0] + [stop - start for start, stop in self.spans])
        lengths = torch.tensor([stop for _, stop in self.spans])
        starts = counts.cumsum(0).int().to(device)
        return Batch(self.rows(device), starts, lengths.int().to(device), int(lengths.max()))

    def build(self, device: str) -> Step:
        pages = self.pages(device)
        pool = pages.block_table.numel() + 1
        cache = poisoned(self.layout, pool, self.page_size, self.channels - self.rotated, self.rotated, device)
        for table, entries in zip(pages.block_table.tolist(), self.entries(), strict=True):
            places = [table[i // self.page_size] * self.page_size + i % self.page_size for i in range(len(entries))]
            cache.insert(torch.tensor(places, dtype=torch.int64, device=device), entries.to(device))
        q = self._per_token(1, self.heads, self.channels)
        weights = self._per_token(2, self.heads)
        rope = rope_for(self.rotated, device)
        to = {"device": device, "dtype": self.dtype}
        return Step(self.batch(device), pages, rope, q.to(**to), weights.to(**to), cache, self.ratio)

    def without_padding(self) -> "Case":
        return replace(self, padding=0)

    def _per_token(self, salt: int, *shape: int) -> Tensor:
        real = [self._random(salt + 10 * stop, stop, *shape)[start:] for start, stop in self.spans]
        return torch.cat((*real, torch.full((self.padding, *shape), NAN)))

    def _random(self, salt: int, *shape: int) -> Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(self.seed + 1000 * salt))


def entries_of(chosen: Tensor) -> list[list[int]]:
    """Each row's entries in ascending order, checked: -1 only at the tail, nothing twice."""
    rows = []
    for row in chosen.tolist():
        entries = [entry for entry in row if entry != -1]
        assert row == entries + [-1] * (len(row) - len(entries)), row
        assert len(set(entries)) == len(entries), row
        rows.append(sorted(entries))
    return rows
