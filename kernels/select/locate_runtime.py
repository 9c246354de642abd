"""The published pair as it was first: fill, then map one row a program, geometry known at run time."""

from dataclasses import dataclass
from typing import ClassVar

import triton
import triton.language as tl
from torch import Tensor

from kernels.contracts import Pages, Rows, Scored
from kernels.select.fill import entries_of
from kernels.select.published import map_row, map_rows


@dataclass(frozen=True)
class Locate:
    device: ClassVar[str] = "cuda"
    block: int = 1024  # columns at once
    num_warps: int = 4

    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        entries = entries_of(chosen, scored, rows, ratio, width)
        return map_rows(locate_kernel, entries, rows, pages, self.block, self.num_warps)


@triton.jit
def locate_kernel(
    p_slots,
    p_lengths,
    p_entries,
    p_request,
    p_valid,
    p_table,
    stride_slots,
    stride_entries,
    width,
    stride_table,
    page_size,
    BLOCK: tl.constexpr,
):
    map_row(
        tl.program_id(0),
        *(p_slots, p_lengths, p_entries, p_request, p_valid, p_table),
        *(stride_slots, stride_entries, width, stride_table, page_size),
        BLOCK,
    )
