"""Slots of unscored rows straight from position and block table; only chosen entries are mapped one by one."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from kernels.contracts import Pages, Rows, Scored
from kernels.layouts import slots_of


@dataclass(frozen=True)
class Locate:
    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        if chosen is None:
            return _all_visible(rows, pages, ratio, width)
        assert chosen.shape[1] == width, (chosen.shape, width)
        if scored.index is None:
            return _mapped(chosen, rows, pages)
        slots, lengths = _all_visible(rows, pages, ratio, width)
        slots[scored.index], lengths[scored.index] = _mapped(chosen, rows.take(scored.index), pages)
        return slots, lengths


def _all_visible(rows: Rows, pages: Pages, ratio: int, width: int) -> tuple[Tensor, Tensor]:
    lengths = rows.visible(ratio)
    column = torch.arange(width, dtype=torch.int32, device=lengths.device)
    slots = _first_slots(pages, width)[rows.request]
    return slots.masked_fill_(column >= lengths[:, None], -1), lengths


def _first_slots(pages: Pages, width: int) -> Tensor:
    """int32 [R, width]: every request's slots in order, its pages unrolled once."""
    size = pages.page_size
    table = pages.block_table[:, : -(-width // size)].long()
    row = torch.arange(size, device=table.device)
    slots = (table[:, :, None] * size + row).flatten(1).int()[:, :width]
    return pad(slots, (0, width - slots.shape[1]), value=-1)


def _mapped(chosen: Tensor, rows: Rows, pages: Pages) -> tuple[Tensor, Tensor]:
    chosen = chosen.masked_fill(~rows.valid[:, None], -1)
    slots = slots_of(pages.block_table, rows.request[:, None], chosen, pages.page_size)
    return slots.int(), (chosen >= 0).sum(1, dtype=torch.int32)
