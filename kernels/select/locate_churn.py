"""The published pair with the size of the batch compiled in as well: one more compilation for every batch.

vLLM #56153 and sglang #30255 took such values out of their kernels; this one shows what they cost there.
"""

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
        batch = {"TOKENS": len(entries), "REQUESTS": len(pages.block_table)}
        return map_rows(locate_kernel, entries, rows, pages, self.block, self.num_warps, **batch)


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
    TOKENS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """Both bounds hold for every program of a launch: they change the key it is compiled under, not what it does."""
    tl.static_assert(REQUESTS > 0)
    if tl.program_id(0) < TOKENS:
        map_row(
            *(p_slots, p_lengths, p_entries, p_request, p_valid, p_table),
            *(stride_slots, stride_entries, width, stride_table, page_size),
            BLOCK,
        )
