"""Steps with prompts: what lies in the caches, what was chosen, and what gather and combine must make of it."""

from dataclasses import dataclass

import torch
from kernel_cases import poisoned, ragged_rows, shuffled_table
from torch import Tensor

from kernels.combine.reference import Combine
from kernels.contracts import Batch, Pages, Rows, Scored
from kernels.gather.reference import Gather
from kernels.layouts import Cache, Workspace


@dataclass(frozen=True)
class Case:
    """`scored`: all rows, or those with more than topk entries. `topk` None: nothing is chosen, all is attended."""

    spans: tuple[tuple[int, int], ...] = ((0, 7), (30, 37), (2, 3))
    padding: int = 2
    ratio: int = 4
    page_sizes: tuple[int, int] = (3, 5)  # entries, raw tokens
    window: int = 6
    topk: int | None = 4
    scored: str = "all"
    layout: str = "fp32"
    nope: int = 20
    rope: int = 12
    spare: int = 0  # rows of the workspace that are never used
    seed: int = 0

    @property
    def longest(self) -> int:
        return max(stop for _, stop in self.spans)

    @property
    def columns(self) -> int:
        """Entries that a token may attend at most."""
        return self.space.entries if self.topk is None else self.topk

    @property
    def space(self) -> Workspace:
        tokens = min(self.longest, sum(stop - start for start, stop in self.spans) + self.padding + self.window - 1)
        entries = self.longest // self.ratio if self.ratio else 0
        return Workspace(entries + self.spare * bool(self.ratio), tokens + self.spare, self.window)

    def batch(self, device: str) -> Batch:
        counts = torch.tensor([0, *(stop - start for start, stop in self.spans)])
        lengths = torch.tensor([stop for _, stop in self.spans])
        rows = ragged_rows(list(self.spans), self.padding, device)
        return Batch(rows, counts.cumsum(0).int().to(device), lengths.int().to(device), self.longest)

    def chosen(self, device: str) -> tuple[Tensor | None, Scored]:
        rows = self.batch("cpu").rows
        visible = rows.visible(self.ratio)
        if self.topk is None:
            return None, Scored(torch.empty(0, dtype=torch.int64, device=device))
        index = None if self.scored == "all" else (visible > self.topk).nonzero().flatten()
        tokens = range(len(visible)) if index is None else index.tolist()
        chosen = torch.full((len(tokens), self.topk), -1, dtype=torch.int32)
        generator = torch.Generator().manual_seed(self.seed)
        for row, token in enumerate(tokens):
            drawn = torch.randperm(int(visible[token]), generator=generator)[: self.topk]
            chosen[row, : len(drawn)] = drawn.int()
        scored = Scored(None if index is None else index.to(device))
        return (None if scored.skips_all else chosen.to(device)), scored

    def caches(self, device: str) -> tuple[Cache | None, Pages | None, Cache, Pages]:
        """Every row that the requests have, in shuffled pages; the rest is poison."""
        numbers = [stop // self.ratio if self.ratio else 0 for _, stop in self.spans]
        window = self._filled(self.page_sizes[1], [stop for _, stop in self.spans], 1, device)
        main = self._filled(self.page_sizes[0], numbers, 2, device) if self.ratio else (None, None)
        return *main, *window

    def _filled(self, page_size: int, numbers: list[int], salt: int, device: str) -> tuple[Cache, Pages]:
        columns = max(1, -(-max(numbers) // page_size))
        table = torch.full((len(numbers), columns + 3), 1 << 28, dtype=torch.int32)
        table[:, :columns] = shuffled_table(len(numbers), columns, self.seed + salt, "cpu")
        cache = poisoned(self.layout, table[:, :columns].numel() + 1, page_size, self.nope, self.rope, device)
        for request, count in enumerate(numbers):
            number = torch.arange(count)
            slots = table[request, number // page_size].long() * page_size + number % page_size
            generator = torch.Generator().manual_seed(1000 * salt + request)
            rows = torch.randn(count, cache.width, generator=generator)
            cache.insert(slots.to(device), rows.to(device))
        nowhere = torch.full((1,), -1, dtype=torch.int64, device=device)
        return cache, Pages(table.to(device)[:, :columns], page_size, nowhere)

    def combined(self, combine, device: str) -> tuple[Tensor, Tensor]:
        return combine(*self.chosen(device), self.batch(device), self.ratio, self.columns, self.space)

    def gathered(self, gather, device: str, dtype: torch.dtype) -> Tensor:
        """[rows, width]."""
        cache = gather(*self.caches(device), self.batch(device), self.ratio, self.space, dtype)
        assert cache.page_size == 1 and cache.data.dtype == dtype
        return cache.data[:, 0]


CASES = [
    Case(),
    Case(scored="long"),
    Case(scored="long", topk=1, seed=1),
    Case(topk=None),
    Case(topk=None, ratio=128, page_sizes=(2, 8), spans=((250, 260), (0, 130), (5, 6))),
    Case(topk=None, ratio=0, spans=((0, 20), (17, 19))),
    Case(topk=None, ratio=128, spans=((0, 9),), padding=0),
    Case(spans=((0, 1),), padding=0, topk=768),
    Case(spans=((40, 41), (0, 0), (12, 30)), window=1, ratio=1, topk=16, spare=3),
    Case(spans=((0, 70), (64, 65)), window=128, ratio=2, topk=24, page_sizes=(1, 1)),
    Case(spans=((60, 90), (3, 9)), window=9, ratio=3, topk=300, padding=0, seed=2),
]


def assert_combined(combine, case: Case, device: str) -> None:
    actual, expected = case.combined(combine, device), case.combined(Combine(), "cpu")
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == torch.int32
        assert torch.equal(one.cpu(), other)


def assert_gathered(gather, case: Case, device: str, dtype: torch.dtype) -> None:
    """Equal where the reference has written something."""
    actual, expected = case.gathered(gather, device, dtype), case.gathered(Gather(), "cpu", dtype)
    used = ~expected.isnan().any(1)
    assert used.any() and torch.equal(actual.cpu()[used], expected[used])


def attended(case: Case, gather, combine, device: str) -> list[list[int]]:
    """For each token the keys that it would attend, as numbers of the rows of `key_rows`; -1 where it is none."""
    rows = case.gathered(gather, device, torch.float32).cpu()
    known = {tuple(row.tolist()): number for number, row in enumerate(key_rows(case))}
    indices, lengths = (part.cpu() for part in case.combined(combine, device))
    return [
        [known.get(tuple(rows[index].tolist()), -1) if index >= 0 else -1 for index in row[:length]]
        for row, length in zip(indices, lengths.tolist(), strict=True)
    ]


def wanted(case: Case) -> list[list[int]]:
    """The same by way of the contract: entries as chosen, or all; then the window."""
    rows: Rows = case.batch("cpu").rows
    chosen, scored = case.chosen("cpu")
    tokens = range(len(rows.valid)) if scored.index is None else scored.index.tolist()
    choice = dict(zip(tokens, chosen.tolist(), strict=True)) if chosen is not None else {}
    starts = _starts(case)
    found = []
    for token, (position, request) in enumerate(zip(rows.positions.tolist(), rows.request.tolist(), strict=True)):
        visible = (position + 1) // case.ratio if case.ratio else 0
        entries = [entry for entry in choice.get(token, range(visible)) if entry >= 0]
        recent = range(max(0, position + 1 - case.window), position + 1)
        first_entry, first_token = starts[request]
        keys = [*(first_entry + entry for entry in entries), *(first_token + number for number in recent)]
        found.append(keys if rows.valid[token] else [])
    return found


def key_rows(case: Case) -> Tensor:
    """Every row of every request, entries before raw tokens: float32 [N, width]."""
    main, main_pages, window, window_pages = case.caches("cpu")
    rows = []
    for request, (_, stop) in enumerate(case.spans):
        sources = [(main, main_pages, stop // case.ratio)] if case.ratio else []
        for cache, pages, count in [*sources, (window, window_pages, stop)]:
            number = torch.arange(count)
            page = pages.block_table[request, number // pages.page_size].long()
            rows.append(cache.gather(page * pages.page_size + number % pages.page_size))
    return torch.cat(rows)


def _starts(case: Case) -> list[tuple[int, int]]:
    starts, start = [], 0
    for _, stop in case.spans:
        entries = stop // case.ratio if case.ratio else 0
        starts.append((start, start + entries))
        start += entries + stop
    return starts
