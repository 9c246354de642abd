"""Slots by way of a local index: entry numbers of all rows first, then one mapping."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.contracts import Pages, Rows, Scored
from kernels.layouts import slots_of


@dataclass(frozen=True)
class Locate:
    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        column = torch.arange(width, dtype=torch.int32, device=rows.positions.device)
        entries = torch.where(column < rows.visible(ratio)[:, None], column, -1)  # [T, width]
        if chosen is not None:
            assert chosen.shape[1] == width, (chosen.shape, width)
            entries[slice(None) if scored.index is None else scored.index] = chosen
            entries.masked_fill_(~rows.valid[:, None], -1)
        slots = slots_of(pages.block_table, rows.request[:, None], entries, pages.page_size)
        return slots.int(), (entries >= 0).sum(1, dtype=torch.int32)
