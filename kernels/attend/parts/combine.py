"""Joins the parts of a softmax that several programs worked on: weights 2 ** lse, and the sink."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_wait

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit(do_not_specialize=("rows", "H", "splits"))
def _combine(
    p_parts,
    p_lse,
    p_sink,
    p_out,
    rows,
    H,
    splits,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_S: tl.constexpr,
    SINK: tl.constexpr,
    EARLY: tl.constexpr,
):
    if EARLY:
        gdc_wait()
    i_row = tl.program_id(0).to(tl.int64)
    o_d = tl.arange(0, BLOCK_D)
    o_s = tl.arange(0, BLOCK_S)
    NONE: tl.constexpr = float("-inf")
    b_out = tl.zeros((BLOCK_D,), tl.float32)
    b_top = tl.full((), NONE, tl.float32)
    b_total = tl.full((), 0.0, tl.float32)
    for s in range(0, splits, BLOCK_S):
        m_s = s + o_s < splits
        o_part = (s + o_s).to(tl.int64) * rows + i_row
        # [BLOCK_S], [BLOCK_S, BLOCK_D]
        b_lse = tl.load(p_lse + o_part, mask=m_s, other=NONE)
        b_part = tl.load(
            p_parts + o_part[:, None] * D + o_d[None, :], mask=m_s[:, None] & (o_d < D)[None, :], other=0.0
        )
        b_highest = tl.maximum(b_top, tl.max(b_lse))
        b_base = tl.where(b_highest == NONE, 0.0, b_highest)
        b_weight = tl.exp2(b_lse - b_base)
        b_shrink = tl.exp2(b_top - b_base)
        b_part = tl.where((b_lse > NONE)[:, None], b_part, 0.0)
        b_out = b_out * b_shrink + tl.sum(b_part * b_weight[:, None], 0)
        b_total = b_total * b_shrink + tl.sum(b_weight)
        b_top = b_highest
    if SINK:
        b_sink = tl.load(p_sink + i_row % H) * LOG2E
        b_total += tl.exp2(b_sink - tl.where(b_top == NONE, 0.0, b_top))
    b_out = b_out / tl.where(b_total == 0.0, 1.0, b_total)
    tl.store(p_out + i_row * D + o_d, b_out.to(p_out.dtype.element_ty), mask=o_d < D)


def empty_parts(splits: int, q: Tensor) -> tuple[Tensor, Tensor]:
    """Parts float32 [splits, T, H, D], their log-sum-exp in base 2 [splits, T, H]; -inf: the part was not written."""
    tokens, heads, width = q.shape
    return (
        torch.empty(splits, tokens, heads, width, dtype=torch.float32, device=q.device),
        torch.empty(splits, tokens, heads, dtype=torch.float32, device=q.device),
    )


def combine(parts: Tensor, lse: Tensor, sink: Tensor | None, out: Tensor, early: bool = False) -> None:
    """early: begins while the launch before it still runs, and waits for it inside (programmatic dependent launch)."""
    splits, tokens, heads, width = parts.shape
    _combine[(tokens * heads,)](
        parts,
        lse,
        sink,
        out,
        tokens * heads,
        heads,
        splits,
        D=width,
        BLOCK_D=triton.next_power_of_2(width),
        BLOCK_S=8,
        SINK=sink is not None,
        EARLY=early,
        num_warps=4,
        **({"launch_pdl": True} if early else {}),
    )
