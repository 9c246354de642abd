"""What vLLM's global top-k index kernel does: one program a row, in blocks as wide as its launch says."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contracts import Pages, Rows


def map_rows(
    kernel: Any, entries: Tensor, rows: Rows, pages: Pages, block: int, num_warps: int, programs: int = 0, **more: int
) -> tuple[Tensor, Tensor]:
    """entries [T, width] -> slots [T, width], lengths [T]; the kernel maps a row with `map_row`.

    A program a row, or at most so many. `more`: arguments of the kernel beyond those of the pair.
    """
    slots = torch.empty_like(entries)
    lengths = torch.empty(len(entries), dtype=torch.int32, device=entries.device)
    if len(entries):
        kernel[(min(programs or len(entries), len(entries)),)](
            *(slots, lengths, entries, rows.request, rows.valid, pages.block_table),
            *(slots.stride(0), entries.stride(0), slots.shape[1], pages.block_table.stride(0), pages.page_size),
            BLOCK=block,
            **more,
            num_warps=num_warps,
        )
    return slots, lengths


@triton.jit
def map_row(
    i_token,
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
    """Geometry may be known when the kernel is compiled, or not: the caller decides."""
    i_token = tl.cast(i_token, tl.int64)
    valid = tl.load(p_valid + i_token)
    p_row = p_table + tl.load(p_request + i_token).to(tl.int64) * stride_table
    i_length = 0
    for start in range(0, width, BLOCK):
        o_column = start + tl.arange(0, BLOCK)
        m_column = o_column < width
        b_entry = tl.load(p_entries + i_token * stride_entries + o_column, mask=m_column, other=-1)
        m_held = (b_entry >= 0) & valid
        b_page = tl.load(p_row + b_entry // page_size, mask=m_held, other=0)
        b_slot = tl.where(m_held, b_page * page_size + b_entry % page_size, -1)
        tl.store(p_slots + i_token * stride_slots + o_column, b_slot, mask=m_column)
        i_length += tl.sum(m_held.to(tl.int32), 0)
    tl.store(p_lengths + i_token, i_length)
