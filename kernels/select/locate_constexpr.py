"""The published pair with the geometry of its mapping compiled in (vLLM #51967)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contracts import Pages, Rows, Scored
from kernels.select.fill import entries_of
from kernels.select.published import map_row


@dataclass(frozen=True)
class Locate:
    device: ClassVar[str] = "cuda"
    block: int = 1024  # columns at once
    num_warps: int = 4

    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        entries = entries_of(chosen, scored, rows, ratio, width)
        slots = torch.empty_like(entries)
        lengths = torch.empty(len(entries), dtype=torch.int32, device=entries.device)
        if len(entries):
            locate_kernel[(len(entries),)](
                *(slots, lengths, entries, rows.request, rows.valid, pages.block_table),
                *(slots.stride(0), entries.stride(0), width, pages.block_table.stride(0), pages.page_size),
                BLOCK=self.block,
                num_warps=self.num_warps,
            )
        return slots, lengths


@triton.jit
def locate_kernel(
    p_slots,
    p_lengths,
    p_entries,
    p_request,
    p_valid,
    p_table,
    stride_slots: tl.constexpr,
    stride_entries: tl.constexpr,
    width: tl.constexpr,
    stride_table: tl.constexpr,
    page_size: tl.constexpr,
    BLOCK: tl.constexpr,
):
    map_row(
        *(p_slots, p_lengths, p_entries, p_request, p_valid, p_table),
        *(stride_slots, stride_entries, width, stride_table, page_size),
        BLOCK,
    )
