"""The published mapping by a fixed number of programs, with the rows of a step compiled in as the bound of their loops.

vLLM #56153 and sglang #30255 took such values out of their kernels: one more compilation for every size of a batch.
Without `compiled_in` the same loop is bound at run time, and nothing else differs.
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
    compiled_in: bool = True
    programs: int = 128  # at most; each maps every so manieth row
    block: int = 1024  # columns at once
    num_warps: int = 4

    def __post_init__(self) -> None:
        if self.programs < 1:
            raise ValueError(f"programs={self.programs}: at least one maps the rows; use 128")

    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        entries = entries_of(chosen, scored, rows, ratio, width)
        kernel = locate_kernel if self.compiled_in else bound_kernel
        return map_rows(kernel, entries, rows, pages, self.block, self.num_warps, self.programs, tokens=len(entries))


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
    tokens: tl.constexpr,
    BLOCK: tl.constexpr,
):
    for i_token in range(tl.program_id(0), tokens, tl.num_programs(0)):
        map_row(
            i_token,
            *(p_slots, p_lengths, p_entries, p_request, p_valid, p_table),
            *(stride_slots, stride_entries, width, stride_table, page_size),
            BLOCK,
        )


@triton.jit(do_not_specialize=["tokens"])
def bound_kernel(
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
    tokens,
    BLOCK: tl.constexpr,
):
    for i_token in range(tl.program_id(0), tokens, tl.num_programs(0)):
        map_row(
            i_token,
            *(p_slots, p_lengths, p_entries, p_request, p_valid, p_table),
            *(stride_slots, stride_entries, width, stride_table, page_size),
            BLOCK,
        )
