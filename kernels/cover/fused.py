"""Slots of every visible entry from position and block table, in one launch, at any distance between rows."""

from dataclasses import dataclass
from typing import ClassVar

import triton
import triton.language as tl
from torch import Tensor

from kernels.contracts import Pages, Rows
from kernels.cover.widths import Width, empty_slots
from kernels.select.knobs import check_powers_of_two


@dataclass(frozen=True)
class Cover:
    device: ClassVar[str] = "cuda"
    width: Width = "exact"
    rows_per_program: int = 1
    block: int | None = None  # columns of a tile; None: 2048 of full rows, 256 of others. Never by a length
    num_warps: int | None = None

    def __post_init__(self) -> None:
        check_powers_of_two(block=self.block, num_warps=self.num_warps)

    def __call__(self, rows: Rows, pages: Pages, ratio: int, longest: int, capacity: int) -> tuple[Tensor, Tensor]:
        slots = empty_slots(self.width, rows.positions, longest, capacity)
        lengths = rows.positions.new_empty(len(slots))
        self.write(slots, lengths, rows, pages, ratio)
        return slots, lengths

    def write(self, slots: Tensor, lengths: Tensor, rows: Rows, pages: Pages, ratio: int) -> None:
        """Into slots int32 [T, K], whose rows may lie further apart than K, and lengths int32 [T]."""
        tokens, width = slots.shape
        block = self.block or (2048 if self.width == "full" else 256)
        if tokens:
            cover_kernel[(triton.cdiv(tokens, self.rows_per_program), max(1, triton.cdiv(width, block)))](
                *(slots, lengths, rows.positions, rows.request, rows.valid, pages.block_table),
                *(tokens, width, slots.stride(0), pages.block_table.stride(0)),
                RATIO=ratio,
                PAGE_SIZE=pages.page_size,
                ROWS=self.rows_per_program,
                BLOCK=block,
                num_warps=self.num_warps or min(8, triton.cdiv(block, 128)),
            )


@triton.jit(do_not_specialize=["tokens", "stride_table"])
def cover_kernel(
    p_slots,
    p_lengths,
    p_positions,
    p_request,
    p_valid,
    p_table,
    tokens,
    width,
    stride_slots,
    stride_table,
    RATIO: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    o_column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    for i in tl.static_range(ROWS):
        i_token = tl.program_id(0) * ROWS + i
        inside = i_token < tokens
        valid = tl.load(p_valid + i_token, mask=inside, other=0) != 0
        i_visible = (tl.load(p_positions + i_token, mask=inside, other=0) + 1) // RATIO
        i_visible = tl.where(valid, tl.maximum(i_visible, 0), 0)
        p_pages = p_table + tl.load(p_request + i_token, mask=inside, other=0).to(tl.int64) * stride_table
        # [BLOCK]
        m_seen = o_column < i_visible
        b_page = tl.load(p_pages + o_column // PAGE_SIZE, mask=m_seen, other=0)
        b_slot = tl.where(m_seen, b_page * PAGE_SIZE + o_column % PAGE_SIZE, -1)
        p_row = p_slots + i_token.to(tl.int64) * stride_slots
        tl.store(p_row + o_column, b_slot, mask=inside & (o_column < width))
        if tl.program_id(1) == 0:
            tl.store(p_lengths + i_token, i_visible, mask=inside)
