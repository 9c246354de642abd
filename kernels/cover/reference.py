"""The definition of cover: every visible entry of each row, in ascending order."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.contracts import Pages, Rows
from kernels.layouts import slots_of


@dataclass(frozen=True)
class Cover:
    def __call__(self, rows: Rows, pages: Pages, ratio: int, longest: int, capacity: int) -> tuple[Tensor, Tensor]:
        lengths = rows.visible(ratio)
        slots = rows.positions.new_full((len(lengths), longest), -1)
        for row, visible in enumerate(lengths.tolist()):
            entries = torch.arange(visible, device=slots.device)
            slots[row, :visible] = slots_of(pages.block_table, rows.request[row], entries, pages.page_size)
        return slots, lengths
