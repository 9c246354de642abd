"""Fill, then map several rows a program: no loop over columns, no tile wider than a row, no counting of entries."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contracts import Pages, Rows, Scored
from kernels.overlap import launch_options, wait_for_inputs
from kernels.select.fill import entries_of


@dataclass(frozen=True)
class Locate:
    device: ClassVar[str] = "cuda"
    rows_per_program: int = 1
    block: int = 512  # columns of a tile, at most
    num_warps: int = 2
    overlap: bool = False
    keep_slots: bool = False  # in L2, rather than the entries: worth it where both do not fit

    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        entries = entries_of(chosen, scored, rows, ratio, width)
        slots = torch.empty_like(entries)
        lengths = torch.empty(len(entries), dtype=torch.int32, device=entries.device)
        block = min(self.block, triton.next_power_of_2(max(1, width)))
        grid = triton.cdiv(len(entries), self.rows_per_program), max(1, triton.cdiv(width, block))
        if len(entries):
            locate_kernel[grid](
                *(slots, lengths, entries, rows.positions, rows.request, rows.valid, pages.block_table),
                *(len(entries), width, pages.block_table.stride(0)),
                RATIO=ratio,
                PAGE_SIZE=pages.page_size,
                ROWS=self.rows_per_program,
                BLOCK=block,
                LOAD="evict_first" if self.keep_slots else "",
                STORE="evict_last" if self.keep_slots else "",
                num_warps=self.num_warps,
                **launch_options(self.overlap, grid[0] * grid[1]),
            )
        return slots, lengths


@triton.jit(do_not_specialize=["tokens", "stride_table"])
def locate_kernel(
    p_slots,
    p_lengths,
    p_entries,
    p_positions,
    p_request,
    p_valid,
    p_table,
    tokens,
    width,
    stride_table,
    RATIO: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    LOAD: tl.constexpr,
    STORE: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    wait_for_inputs(OVERLAP)
    o_column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m_column = o_column < width
    for i in tl.static_range(ROWS):
        i_token = tl.program_id(0) * ROWS + i
        m_token = i_token < tokens
        o_row = i_token.to(tl.int64) * width
        b_entry = tl.load(p_entries + o_row + o_column, mask=m_column & m_token, other=-1, eviction_policy=LOAD)
        valid = tl.load(p_valid + i_token, mask=m_token, other=0) != 0
        i_visible = (tl.load(p_positions + i_token, mask=m_token, other=0) + 1) // RATIO
        i_request = tl.load(p_request + i_token, mask=m_token, other=0)
        m_held = (b_entry >= 0) & valid
        b_page = tl.load(p_table + i_request.to(tl.int64) * stride_table + b_entry // PAGE_SIZE, mask=m_held, other=0)
        b_slot = tl.where(m_held, b_page * PAGE_SIZE + b_entry % PAGE_SIZE, -1)
        tl.store(p_slots + o_row + o_column, b_slot, mask=m_column & m_token, eviction_policy=STORE)
        if tl.program_id(1) == 0:
            tl.store(p_lengths + i_token, tl.where(valid, tl.minimum(i_visible, width), 0), mask=m_token)
