"""All requests at once, in torch."""

from dataclasses import dataclass

import torch

from kernels.contracts import Batch, Pages
from kernels.gather.budget import MAX_ROWS, rows_within
from kernels.layouts import Cache, PlainCache, Workspace, slots_of


@dataclass(frozen=True)
class Gather:
    max_rows: int = MAX_ROWS

    def __call__(
        self,
        main: Cache | None,
        main_pages: Pages | None,
        window: Cache,
        window_pages: Pages,
        batch: Batch,
        ratio: int,
        space: Workspace,
        dtype: torch.dtype,
    ) -> PlainCache:
        rows_within(self.max_rows, len(batch.seq_lens), space)
        request = torch.arange(len(batch.seq_lens), device=batch.seq_lens.device)[:, None]
        lengths = batch.seq_lens[:, None]

        def part(cache: Cache, pages: Pages, numbers: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
            known = numbers.masked_fill(numbers >= ends, -1)
            return cache.gather(slots_of(pages.block_table, request, known, pages.page_size), dtype)

        token = space.first_tokens(batch.computed)[:, None] + torch.arange(space.tokens, device=lengths.device)
        parts = [part(window, window_pages, token, lengths)]
        if ratio:
            entry = torch.arange(space.entries, device=lengths.device).expand(len(lengths), -1)
            parts.insert(0, part(main, main_pages, entry, lengths // ratio))
        return PlainCache(torch.cat(parts, 1).flatten(0, 1)[:, None])
