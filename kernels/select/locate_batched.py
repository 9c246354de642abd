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
from kernels.select.slots import slots_of_row
from kernels.select.tile import can_overlap, hints, shape_of


@dataclass(frozen=True)
class Locate:
    device: ClassVar[str] = "cuda"
    rows_per_program: int | None = None  # None: chosen by the size of the step and the GPU, as are the next three
    num_warps: int | None = None
    keep_slots: bool | None = None  # in L2, rather than the entries
    overlap: bool | None = None
    block: int = 512  # columns of a tile, at most

    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        entries = entries_of(chosen, scored, rows, ratio, width)
        slots = torch.empty_like(entries)
        lengths = torch.empty(len(entries), dtype=torch.int32, device=entries.device)
        block = min(self.block, triton.next_power_of_2(max(1, width)))
        rows_each, warps = shape_of(len(entries), True, self.rows_per_program, self.num_warps)
        bytes_each = rows_each * min(block, width) * 8
        grid = triton.cdiv(len(entries), rows_each), max(1, triton.cdiv(width, block))
        if len(entries):
            locate_kernel[grid](
                *(slots, lengths, entries, rows.positions, rows.request, rows.valid, pages.block_table),
                *(len(entries), width, pages.block_table.stride(0)),
                RATIO=ratio,
                PAGE_SIZE=pages.page_size,
                ROWS=rows_each,
                BLOCK=block,
                num_warps=warps,
                **hints(self.keep_slots, entries.numel(), entries.device),
                **launch_options(can_overlap(self.overlap, slots.device), grid[0] * grid[1], bytes_each),
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
    """Everything is loaded before anything is stored: no load may pass a store."""
    wait_for_inputs(OVERLAP)
    o_column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m_column = o_column < width
    read, found = (), ()
    for i in tl.static_range(ROWS):
        i_token = tl.program_id(0) * ROWS + i
        m_token = i_token < tokens
        p_row = p_entries + i_token.to(tl.int64) * width
        b_entry = tl.load(p_row + o_column, mask=m_column & m_token, other=-1, eviction_policy=LOAD)
        valid = tl.load(p_valid + i_token, mask=m_token, other=0) != 0
        i_visible = (tl.load(p_positions + i_token, mask=m_token, other=0) + 1) // RATIO
        i_length = tl.where(valid, tl.minimum(i_visible, width), 0)
        read += ((b_entry, valid, i_length, tl.load(p_request + i_token, mask=m_token, other=0)),)
    for i in tl.static_range(ROWS):
        b_entry, valid, _, i_request = read[i]
        p_pages = p_table + i_request.to(tl.int64) * stride_table
        found += (slots_of_row(b_entry, (b_entry >= 0) & valid, p_pages, PAGE_SIZE),)
    for i in tl.static_range(ROWS):
        i_token = tl.program_id(0) * ROWS + i
        m_token = i_token < tokens
        p_row = p_slots + i_token.to(tl.int64) * width
        tl.store(p_row + o_column, found[i], mask=m_column & m_token, eviction_policy=STORE)
        if tl.program_id(1) == 0:
            tl.store(p_lengths + i_token, read[i][2], mask=m_token)
