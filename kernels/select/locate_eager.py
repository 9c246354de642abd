"""Slots by way of a local index: entry numbers of all rows first, then one mapping."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.contracts import Pages, Rows, Scored
from kernels.layouts import slots_of
from kernels.select.entries import entries_of


@dataclass(frozen=True)
class Locate:
    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        entries = entries_of(chosen, scored, rows, ratio, width)
        slots = slots_of(pages.block_table, rows.request[:, None], entries, pages.page_size)
        return slots.int(), (entries >= 0).sum(1, dtype=torch.int32)
