"""The index query as the score kernel wants it: rotated, in the cache's format, scales folded into the weights."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contracts import Rows
from kernels.insert import quantised
from kernels.overlap import launch_options, wait_for_inputs
from kernels.rope import Rope
from kernels.rotary import angles, turned


def prepare(
    q: Tensor,
    weights: Tensor,
    rope: Rope,
    rows: Rows,
    ratio: int,
    dtype: torch.dtype,
    heads: int,
    channels: int,
    skip_up_to: int,
    heads_per_program: int,
    warps: int,
    overlap: bool = False,
    share: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """q [S, I, X], weights [S, I] -> values [S, heads, channels] and float32 weights [S, heads], zero beyond I and X.

    score = sum_h weights_h * (x + |x|), x = values_h . k: the weights hold the score's factors, the scale of each e4m3
    row (layouts.quantise) and the half of relu(x) = (x + |x|) / 2, or another share for kernels that compute relu(x).
    Rows with visible <= skip_up_to are not written.
    """
    values = torch.empty((len(q), heads, channels), dtype=dtype, device=q.device)
    scaled = torch.empty((len(q), heads), dtype=torch.float32, device=q.device)
    parts = triton.cdiv(heads, heads_per_program)
    _prepare[(len(q), parts)](
        q,
        weights,
        rope.cos,
        rope.sin,
        rows.positions,
        rows.valid,
        values.view(torch.uint8) if dtype == torch.float8_e4m3fn else values,
        scaled,
        q.stride(0),
        q.stride(1),
        weights.stride(0),
        share * q.shape[2] ** -0.5 * q.shape[1] ** -0.5,
        RATIO=ratio,
        SKIP=skip_up_to,
        I=q.shape[1],
        X=q.shape[2],
        ROTATED=2 * rope.cos.shape[1],
        HEADS=heads,
        CHANNELS=channels,
        BLOCK_H=heads_per_program,
        num_warps=warps,
        enable_fp_fusion=False,
        **launch_options(overlap, len(q) * parts),
    )
    return values, scaled


@triton.jit
def _prepare(
    p_q,
    p_weights,
    p_cos,
    p_sin,
    p_positions,
    p_valid,
    p_values,
    p_scaled,
    stride_row,
    stride_head,
    stride_weights,
    factor,
    RATIO: tl.constexpr,
    SKIP: tl.constexpr,
    I: tl.constexpr,  # noqa: E741
    X: tl.constexpr,
    ROTATED: tl.constexpr,
    HEADS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK_H: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    wait_for_inputs(OVERLAP)
    i_row = tl.program_id(0).to(tl.int64)
    o_head = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    o_channel = tl.arange(0, CHANNELS)
    o_q = o_head[:, None] * stride_head + o_channel[None, :]
    m_q = (o_head[:, None] < I) & (o_channel[None, :] < X)
    b_q = tl.load(p_q + i_row * stride_row + o_q, mask=m_q, other=0.0).to(tl.float32)  # [BLOCK_H, CHANNELS]
    b_weight = tl.load(p_weights + i_row * stride_weights + o_head, mask=o_head < I, other=0.0).to(tl.float32)
    position = tl.load(p_positions + i_row)
    if tl.load(p_valid + i_row) and (position + 1) // RATIO > SKIP:
        b_cos, b_sin = angles(p_cos, p_sin, position, X, ROTATED, CHANNELS)
        b_q = turned(b_q, b_cos, b_sin, X, ROTATED)
        b_weight *= factor
        p_row = p_values + (i_row * HEADS + o_head)[:, None] * CHANNELS + o_channel[None, :]
        if p_values.dtype.element_ty == tl.uint8:
            b_bytes, b_exponent = quantised(b_q)
            b_weight *= (b_exponent << 23).to(tl.float32, bitcast=True)
            tl.store(p_row, b_bytes, mask=o_head[:, None] < HEADS)
        else:
            tl.store(p_row, b_q.to(p_values.dtype.element_ty), mask=o_head[:, None] < HEADS)
        tl.store(p_scaled + i_row * HEADS + o_head, b_weight, mask=o_head < HEADS)
