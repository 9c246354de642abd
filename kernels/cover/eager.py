"""Every request's pages unrolled once, then cut to what each of its rows sees."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.contracts import Pages, Rows
from kernels.cover.widths import Width, empty_slots
from kernels.layouts import slots_of


@dataclass(frozen=True)
class Cover:
    width: Width = "exact"

    def __call__(self, rows: Rows, pages: Pages, ratio: int, longest: int, capacity: int) -> tuple[Tensor, Tensor]:
        lengths = rows.visible(ratio)
        slots = empty_slots(self.width, rows.positions, longest, capacity)
        column = torch.arange(slots.shape[1], device=slots.device)
        request = torch.arange(len(pages.block_table), device=slots.device)[:, None]
        known = column.masked_fill(column >= longest, -1)
        unrolled = slots_of(pages.block_table, request, known, pages.page_size).int()
        return slots.copy_(unrolled[rows.request].masked_fill_(column >= lengths[:, None], -1)), lengths
