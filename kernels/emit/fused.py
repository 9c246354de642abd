"""Inverse rotation in one pass over the heads' outputs, then the projection, written where its result belongs."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contracts import Rows
from kernels.overlap import launch_options, wait_for_inputs
from kernels.rope import Rope
from kernels.rotary import angles, refusal, turned


@dataclass(frozen=True)
class Emit:
    device: ClassVar[str] = "cuda"
    heads_per_program: int = 4
    num_warps: int = 1
    overlap: bool = False

    def refuses(self, model: Any) -> str | None:
        return refusal(model.head_dim, model.rope_dim)

    def __call__(self, o: Tensor, rope: Rope, rows: Rows, wo_a: Tensor) -> Tensor:
        groups, rank, width = wo_a.shape
        turned = self.unturned(o, rope, rows).view(-1, groups, width)
        latent = o.new_empty(len(o), groups, rank)
        torch.bmm(turned.transpose(0, 1), wo_a.mT, out=latent.transpose(0, 1))
        return latent.flatten(1)

    def unturned(self, o: Tensor, rope: Rope, rows: Rows) -> Tensor:
        """o [T, H, D] turned back by the position of its row."""
        tokens, heads, width = o.shape
        o, out = o.contiguous(), torch.empty(o.shape, dtype=o.dtype, device=o.device)
        block_heads = min(self.heads_per_program, triton.next_power_of_2(heads))
        parts = triton.cdiv(heads, block_heads)
        if tokens:
            unturn_kernel[(tokens * parts,)](
                *(o, out, rope.cos, rope.sin, rows.positions),
                HEADS=heads,
                WIDTH=width,
                ROTATED=2 * rope.cos.shape[1],
                BLOCK_HEADS=block_heads,
                BLOCK_WIDTH=triton.next_power_of_2(width),
                PARTS=parts,
                num_warps=self.num_warps,
                **launch_options(self.overlap, tokens * parts),
            )
        return out


@triton.jit
def unturn_kernel(
    p_o,
    p_out,
    p_cos,
    p_sin,
    p_positions,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    ROTATED: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    wait_for_inputs(OVERLAP)
    i_token = (tl.program_id(0) // PARTS).to(tl.int64)
    o_head = tl.program_id(0) % PARTS * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    o_channel = tl.arange(0, BLOCK_WIDTH)
    m_o = (o_head < HEADS)[:, None] & (o_channel < WIDTH)[None, :]
    o_element = (i_token * HEADS + o_head[:, None]) * WIDTH + o_channel[None, :]
    # [BLOCK_HEADS, BLOCK_WIDTH]
    b_o = tl.load(p_o + o_element, mask=m_o, other=0.0).to(tl.float32)
    b_cos, b_sin = angles(p_cos, p_sin, tl.load(p_positions + i_token), WIDTH, ROTATED, BLOCK_WIDTH)
    b_o = turned(b_o, b_cos, -b_sin, WIDTH, ROTATED)
    tl.store(p_out + o_element, b_o.to(p_out.dtype.element_ty), mask=m_o)
