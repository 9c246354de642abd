"""Fill and map in one launch (vLLM #49486 and #51967 made one).

The slots of a row that attends all it sees follow from its position and the block table. Where some rows were scored,
those that see more than `width` entries are mapped, the others need no look at what was chosen.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contracts import Pages, Rows, Scored
from kernels.overlap import launch_options, wait_for_inputs
from kernels.select.slots import slots_of_row
from kernels.select.tile import can_overlap, hints, shape_of


@dataclass(frozen=True)
class Locate:
    device: ClassVar[str] = "cuda"
    rows_per_program: int | None = None  # None: chosen by the size of the step and the GPU, as are the next three
    num_warps: int | None = None
    keep_slots: bool | None = None  # in L2, rather than the chosen entries
    overlap: bool | None = None
    block: int = 512  # columns of a tile, at most

    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        tokens, device = len(rows.positions), rows.positions.device
        slots = torch.empty(tokens, width, dtype=torch.int32, device=device)
        lengths = torch.empty(tokens, dtype=torch.int32, device=device)
        apart = scored.index is not None and chosen is not None
        scored_apart = len(scored.index) if apart else 0
        block = min(self.block, triton.next_power_of_2(max(1, width)))
        rows_each, warps = shape_of(tokens, chosen is not None, self.rows_per_program, self.num_warps)
        bytes_each = rows_each * min(block, width) * (4 if chosen is None else 8)
        grid = triton.cdiv(tokens + scored_apart, rows_each), max(1, triton.cdiv(width, block))
        if tokens:
            locate_kernel[grid](
                *(slots, lengths, chosen, scored.index if apart else None),
                *(rows.positions, rows.request, rows.valid, pages.block_table),
                *(tokens, scored_apart, width, pages.block_table.stride(0)),
                RATIO=ratio,
                PAGE_SIZE=pages.page_size,
                ROWS=rows_each,
                BLOCK=block,
                num_warps=warps,
                **hints(self.keep_slots, 0 if chosen is None else chosen.numel(), slots.device),
                **launch_options(can_overlap(self.overlap, slots.device), grid[0] * grid[1], bytes_each),
            )
        return slots, lengths


@triton.jit(do_not_specialize=["tokens", "scored", "stride_table"])
def locate_kernel(
    p_slots,
    p_lengths,
    p_chosen,
    p_index,
    p_positions,
    p_request,
    p_valid,
    p_table,
    tokens,
    scored,
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
    """p_index None: row t of chosen belongs to token t. Else programs for the scored rows follow those for all rows.

    Everything is loaded before anything is stored: no load may pass a store.
    """
    wait_for_inputs(OVERLAP)
    o_column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m_column = o_column < width
    read, found = (), ()
    for i in tl.static_range(ROWS):
        i_token = tl.program_id(0) * ROWS + i
        i_chosen = i_token
        inside = i_token < tokens
        if p_index is not None:
            is_scored = i_token >= tokens
            i_chosen = i_token - tokens
            inside |= i_chosen < scored
            i_index = tl.load(p_index + i_chosen, mask=is_scored & inside, other=0).to(tl.int32)
            i_token = tl.where(is_scored, i_index, i_token)
        p_row = p_chosen
        if p_chosen is not None:
            p_row = p_chosen + i_chosen.to(tl.int64) * width
        # [BLOCK]
        b_entry = o_column
        if p_chosen is not None and p_index is None:
            b_entry = tl.load(p_row + o_column, mask=m_column & inside, other=-1, eviction_policy=LOAD)
        i_visible = (tl.load(p_positions + i_token, mask=inside, other=0) + 1) // RATIO
        i_request = tl.load(p_request + i_token, mask=inside, other=0)
        i_visible = tl.where(tl.load(p_valid + i_token, mask=inside, other=0) != 0, i_visible, 0)
        if p_index is not None:
            is_long = i_visible > width
            inside &= is_long == is_scored
            m_load = m_column & inside & is_long
            b_chosen = tl.load(p_row + o_column, mask=m_load, other=-1, eviction_policy=LOAD)
            b_entry = tl.where(is_long, b_chosen, b_entry)
        read += ((i_token, inside, b_entry, i_visible, i_request),)
    for i in tl.static_range(ROWS):
        _, inside, b_entry, i_visible, i_request = read[i]
        m_held = m_column & inside & (b_entry >= 0) & (b_entry < i_visible)
        p_pages = p_table + i_request.to(tl.int64) * stride_table
        found += (slots_of_row(b_entry, m_held, p_pages, PAGE_SIZE),)
    for i in tl.static_range(ROWS):
        i_token, inside, _, i_visible, _ = read[i]
        p_row = p_slots + i_token.to(tl.int64) * width
        tl.store(p_row + o_column, found[i], mask=m_column & inside, eviction_policy=STORE)
        if tl.program_id(1) == 0:
            tl.store(p_lengths + i_token, tl.minimum(i_visible, width), mask=inside)
