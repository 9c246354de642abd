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


@dataclass(frozen=True)
class Locate:
    device: ClassVar[str] = "cuda"
    rows_per_program: int = 1
    block: int = 512  # columns of a tile, at most
    num_warps: int = 4
    overlap: bool = False
    keep_slots: bool = False  # in L2, rather than the chosen entries: worth it where both do not fit

    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        tokens, device = len(rows.positions), rows.positions.device
        slots = torch.empty(tokens, width, dtype=torch.int32, device=device)
        lengths = torch.empty(tokens, dtype=torch.int32, device=device)
        apart = scored.index is not None and chosen is not None
        scored_apart = len(scored.index) if apart else 0
        block = min(self.block, triton.next_power_of_2(max(1, width)))
        grid = triton.cdiv(tokens + scored_apart, self.rows_per_program), max(1, triton.cdiv(width, block))
        if tokens:
            locate_kernel[grid](
                *(slots, lengths, chosen, scored.index if apart else None),
                *(rows.positions, rows.request, rows.valid, pages.block_table),
                *(tokens, scored_apart, width, pages.block_table.stride(0)),
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
    """p_index None: row t of chosen belongs to token t. Else programs for the scored rows follow those for all rows."""
    wait_for_inputs(OVERLAP)
    o_column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m_column = o_column < width
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
        # [BLOCK]
        b_entry = o_column
        if p_chosen is not None and p_index is None:
            p_row = p_chosen + i_chosen.to(tl.int64) * width
            b_entry = tl.load(p_row + o_column, mask=m_column & inside, other=-1, eviction_policy=LOAD)
        i_visible = (tl.load(p_positions + i_token, mask=inside, other=0) + 1) // RATIO
        i_request = tl.load(p_request + i_token, mask=inside, other=0)
        i_visible = tl.where(tl.load(p_valid + i_token, mask=inside, other=0) != 0, i_visible, 0)
        if p_index is not None:
            is_long = i_visible > width
            inside &= is_long == is_scored
            p_row = p_chosen + i_chosen.to(tl.int64) * width
            m_load = m_column & inside & is_long
            b_chosen = tl.load(p_row + o_column, mask=m_load, other=-1, eviction_policy=LOAD)
            b_entry = tl.where(is_long, b_chosen, b_entry)
        m_held = m_column & inside & (b_entry >= 0) & (b_entry < i_visible)
        b_page = tl.load(p_table + i_request.to(tl.int64) * stride_table + b_entry // PAGE_SIZE, mask=m_held, other=0)
        b_slot = tl.where(m_held, b_page * PAGE_SIZE + b_entry % PAGE_SIZE, -1)
        p_row = p_slots + i_token.to(tl.int64) * width
        tl.store(p_row + o_column, b_slot, mask=m_column & inside, eviction_policy=STORE)
        if tl.program_id(1) == 0:
            tl.store(p_lengths + i_token, tl.minimum(i_visible, width), mask=inside)
