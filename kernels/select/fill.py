"""Entry numbers of the rows that nobody scored: all that a row can see, in order (vLLM #49486)."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contracts import Rows, Scored


def entries_of(chosen: Tensor | None, scored: Scored, rows: Rows, ratio: int, width: int) -> Tensor:
    """int32 [T, width]: the chosen entries of scored rows, all visible ones of the others, -1 at the tail."""
    if scored.index is None:
        return chosen.contiguous()
    entries = torch.empty(len(rows.positions), width, dtype=torch.int32, device=rows.positions.device)
    if entries.numel():
        block = triton.next_power_of_2(width)
        fill_kernel[(len(entries),)](entries, rows.positions, rows.valid, width, RATIO=ratio, BLOCK=block, num_warps=8)
    return entries if chosen is None else entries.index_copy_(0, scored.index, chosen)


@triton.jit
def fill_kernel(p_entries, p_positions, p_valid, width, RATIO: tl.constexpr, BLOCK: tl.constexpr):
    i_token = tl.program_id(0).to(tl.int64)
    i_visible = (tl.load(p_positions + i_token) + 1) // RATIO
    i_visible = tl.where(tl.load(p_valid + i_token), i_visible, 0)
    o_column = tl.arange(0, BLOCK)
    b_entry = tl.where(o_column < i_visible, o_column, -1)
    tl.store(p_entries + i_token * width + o_column, b_entry, mask=o_column < width)
