"""The definition of gather: request by request, entries and then raw tokens, each row where the workspace has it."""

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
        lengths, firsts, device = batch.seq_lens, space.first_tokens(batch.computed), window.data.device
        rows = rows_within(self.max_rows, len(lengths), space)
        workspace = torch.full((rows, window.width), torch.nan, device=device)
        for request, (length, first) in enumerate(zip(lengths.tolist(), firsts.tolist(), strict=True)):
            base = request * space.rows
            sources = [(window, window_pages, torch.arange(first, length, device=device), base + space.entries)]
            if ratio:
                sources.append((main, main_pages, torch.arange(length // ratio, device=device), base))
            for cache, pages, numbers, start in sources:
                slots = slots_of(pages.block_table, torch.full_like(numbers, request), numbers, pages.page_size)
                workspace[start : start + len(numbers)] = cache.gather(slots)
        return PlainCache(workspace.to(dtype)[:, None])
