"""Which pages of a paged cache belong to which request: the host's side of the block tables."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pipeline.engine.weights import overlap
from pipeline.schema import Engine, Kind, Model

NULL_PAGE = 0  # never handed out: unused columns of a block table point to it


@dataclass(frozen=True)
class Space:
    """How tokens map to rows of one cache, and for how long the rows are read."""

    page_size: int  # rows
    tokens_per_row: int
    lookback: int | None  # tokens before the next one that are still read; None: all

    def rows(self, tokens: int) -> int:
        return tokens // self.tokens_per_row

    def columns(self, tokens: int) -> int:
        """Of the block table of a request of so many tokens."""
        return -(-self.rows(tokens) // self.page_size)

    def first_live_row(self, tokens: int) -> int:
        """First row that a step starting after `tokens` tokens may read."""
        return 0 if self.lookback is None else max(0, tokens - self.lookback)


def spaces(model: Model, engine: Engine, kinds: set[Kind]) -> dict[str, Space]:
    """One for the window cache, and for each kind that compresses its entries and its compressor state.

    Pages follow vLLM: a page of entries covers block_size tokens, a state page holds min(ratio, 8) tokens.
    """
    found = {"window": Space(engine.window_page, 1, model.window - 1)}
    for kind in sorted(kinds - {"swa"}):
        ratio = model.ratio(kind)
        found[f"{kind}.entries"] = Space(max(1, engine.block_size // ratio), ratio, None)
        found[f"{kind}.state"] = Space(min(ratio, 8), 1, overlap(kind) * ratio - 1)
    return found


class PagePool:
    """Pages of one space, handed out in a shuffled order as in a server that has run for a while.

    Without a capacity it only counts: `high_water` is the number of pages that the same calls need, `widest` that of
    columns. Block tables have at least `columns` in every step, so that kernels may compile their width in.
    """

    def __init__(self, space: Space, capacity: int | None = None, seed: int = 0, columns: int = 1):
        self.space = space
        self.capacity = capacity
        self.columns = columns
        self.high_water = 0
        self.widest = 1
        self.taken = 0  # pages handed out in all
        self.tables: dict[int, list[int]] = {}
        self._given_back: dict[int, int] = {}  # leading columns of each table that are free again
        self._free = [] if capacity is None else (1 + np.random.default_rng(seed).permutation(capacity)).tolist()

    def extend(self, request: int, computed: int, tokens: int) -> None:
        """Give `request`, of which `computed` tokens are done, the pages for `tokens` tokens in all.

        ValueError where the pool would be exhausted; then nothing has changed.
        """
        self.require([(request, computed, tokens)])
        table = self.tables.setdefault(request, [])
        first = self._first_column(computed)
        self._release(table, self._given_back.get(request, 0), min(first, len(table)))
        self._given_back[request] = first
        for column in range(len(table), self.space.columns(tokens)):
            table.append(self._take() if column >= first else NULL_PAGE)
        self.widest = max(self.widest, len(table))

    def require(self, growth: Iterable[tuple[int, int, int]]) -> None:
        """ValueError where `extend`, called in turn with (request, computed, tokens) of each, would exhaust the pool.

        Changes nothing. No request comes twice.
        """
        if self.capacity is None:
            return
        free = len(self._free)
        for request, computed, tokens in growth:
            table, first = self.tables.get(request, []), self._first_column(computed)
            free += sum(page != NULL_PAGE for page in table[self._given_back.get(request, 0) : first])
            needed = max(0, self.space.columns(tokens) - max(first, len(table)))
            if needed > free:
                raise ValueError(
                    f"the cache is full: {needed} more pages of {self.space.page_size} rows are needed, {free} of its "
                    f"{self.capacity} are left; give pages back first, or make it larger"
                )
            free -= needed

    def drop(self, request: int) -> None:
        table = self.tables.pop(request)
        self._release(table, self._given_back.pop(request), len(table))

    def block_table(self, requests: list[int]) -> np.ndarray:
        """int32 [R, P]."""
        width = max((len(self.tables[request]) for request in requests), default=0)
        table = np.full((len(requests), max(self.columns, width)), NULL_PAGE, np.int32)
        for row, request in enumerate(requests):
            table[row, : len(self.tables[request])] = self.tables[request]
        return table

    def _first_column(self, computed: int) -> int:
        return self.space.first_live_row(computed) // self.space.page_size

    def _take(self) -> int:
        self.taken += 1
        if not self._free:
            assert self.capacity is None
            self._free.append(self.high_water + 1)
            self.high_water += 1
        return self._free.pop()

    def _release(self, table: list[int], start: int, stop: int) -> None:
        self._free.extend(page for page in table[start:stop] if page != NULL_PAGE)
        table[start:stop] = [NULL_PAGE] * (stop - start)
