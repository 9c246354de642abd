"""Norm, rotation and cache insert of a step's queries and keys in one launch.

A program takes some heads of one token, or that token's key.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contracts import Pages, Rows
from kernels.insert import insert, layout_of
from kernels.layouts import Cache
from kernels.overlap import launch_options, wait_for_inputs
from kernels.rope import Rope
from kernels.rotary import angles, refusal, turned


@dataclass(frozen=True)
class Ingest:
    device: ClassVar[str] = "cuda"
    heads_per_program: int = 4
    num_warps: int = 1
    overlap: bool = False

    def refuses(self, model: Any) -> str | None:
        return refusal(model.head_dim, model.rope_dim)

    def __call__(
        self, q: Tensor, kv: Tensor, kv_norm: Tensor, eps: float, rope: Rope, rows: Rows, cache: Cache, pages: Pages
    ) -> Tensor:
        tokens, heads, width = q.shape
        assert q.stride(2) == kv.stride(1) == 1 and kv.shape == (tokens, width), (q.stride(), kv.stride())
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        nope, page_size, page_stride = layout_of(cache)
        block_heads = min(self.heads_per_program, triton.next_power_of_2(heads))
        parts = triton.cdiv(heads, block_heads) + 1
        if tokens:
            ingest_kernel[(tokens * parts,)](
                *(q, out, kv, kv_norm, rope.cos, rope.sin, rows.positions, rows.valid, pages.slot_mapping, cache.data),
                *(q.stride(0), q.stride(1), kv.stride(0), eps),
                HEADS=heads,
                WIDTH=width,
                ROTATED=2 * rope.cos.shape[1],
                NOPE=nope,
                PAGE_SIZE=page_size,
                PAGE_STRIDE=page_stride,
                BLOCK_HEADS=block_heads,
                BLOCK_WIDTH=triton.next_power_of_2(width),
                PARTS=parts,
                num_warps=self.num_warps,
                **launch_options(self.overlap, tokens * parts),
            )
        return out


@triton.jit
def ingest_kernel(
    p_q,
    p_out,
    p_kv,
    p_norm,
    p_cos,
    p_sin,
    p_positions,
    p_valid,
    p_slots,
    p_cache,
    stride_q_token,
    stride_q_head,
    stride_kv,
    eps,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    ROTATED: tl.constexpr,
    NOPE: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    PAGE_STRIDE: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    wait_for_inputs(OVERLAP)
    i_token = (tl.program_id(0) // PARTS).to(tl.int64)
    i_part = tl.program_id(0) % PARTS
    i_position = tl.load(p_positions + i_token)
    o_channel = tl.arange(0, BLOCK_WIDTH)
    m_channel = o_channel < WIDTH
    if i_part < PARTS - 1:
        o_head = i_part * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
        m_q = (o_head < HEADS)[:, None] & m_channel[None, :]
        p_rows = p_q + i_token * stride_q_token + o_head[:, None] * stride_q_head
        # [BLOCK_HEADS, BLOCK_WIDTH]
        b_q = tl.load(p_rows + o_channel[None, :], mask=m_q, other=0.0).to(tl.float32)
        b_cos, b_sin = angles(p_cos, p_sin, i_position, WIDTH, ROTATED, BLOCK_WIDTH)
        b_q = turned(_normed(b_q, eps, WIDTH), b_cos, b_sin, WIDTH, ROTATED)
        p_row = p_out + (i_token * HEADS + o_head[:, None]) * WIDTH
        tl.store(p_row + o_channel[None, :], b_q.to(p_out.dtype.element_ty), mask=m_q)
    else:
        i_slot = tl.load(p_slots + i_token)
        if (i_slot >= 0) & tl.load(p_valid + i_token):
            b_kv = tl.load(p_kv + i_token * stride_kv + o_channel, mask=m_channel, other=0.0).to(tl.float32)
            b_norm = tl.load(p_norm + o_channel, mask=m_channel, other=0.0).to(tl.float32)
            b_cos, b_sin = angles(p_cos, p_sin, i_position, WIDTH, ROTATED, BLOCK_WIDTH)
            b_kv = turned(_normed(b_kv[None, :], eps, WIDTH) * b_norm[None, :], b_cos, b_sin, WIDTH, ROTATED)
            b_kv = tl.reshape(b_kv, [BLOCK_WIDTH])
            insert(b_kv, p_cache, i_slot, WIDTH, NOPE, PAGE_SIZE, PAGE_STRIDE)


@triton.jit
def _normed(b_x, eps, WIDTH: tl.constexpr):
    return b_x * tl.rsqrt(tl.sum(b_x * b_x, 1) / WIDTH + eps)[:, None]
