"""x times a weight matrix in e4m3: a scale for each 128 x 128 block of the weight, as the checkpoint has it, and for
each 128 channels of a row of x, quantised on the way. The product is torch's own scaled matmul.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.insert import quantised
from kernels.layouts import quantise_blocks
from kernels.overlap import launch_options, wait_for_inputs

BLOCK = 128
ROWS = 16  # the matmul takes multiples; one row alone it refuses


class Fp8Weight(NamedTuple):
    values: Tensor  # e4m3 [N, K]
    scales: Tensor  # float32 [N / 128, K / 128], powers of two


@dataclass(frozen=True)
class Project:
    device: ClassVar[str] = "cuda"
    operands: ClassVar[torch.dtype] = torch.float8_e4m3fn
    groups_per_program: int = 8  # of 128 channels
    num_warps: int = 4
    overlap: bool = False

    def refuses(self, model: Any) -> str | None:
        for name in ("hidden", "q_lora_rank", "head_dim", "index_dim", "o_lora_rank"):
            if getattr(model, name) % BLOCK:
                return f"{name} {getattr(model, name)} is no multiple of {BLOCK}, the side of a block with one scale"
        return None

    def prepared(self, weight: Tensor) -> Fp8Weight:
        """weight [N, K]. Exact where each block's values are e4m3 times a power of two, as a checkpoint's are."""
        return Fp8Weight(*quantise_blocks(weight, BLOCK))

    def __call__(self, x: Tensor, weight: Fp8Weight) -> Tensor:
        values, scales = self.quantised(x)
        product = torch._scaled_mm(
            values, weight.values.T, scale_a=scales, scale_b=weight.scales.T, out_dtype=torch.bfloat16
        )
        return product[: len(x)]

    def quantised(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [T, K] -> e4m3 [rows, K] and float32 [rows, K / 128] with rows side by side; zeros from row T on."""
        tokens, width = x.shape
        assert x.stride(1) == 1 and width % BLOCK == 0, (x.shape, x.stride())
        rows, groups = triton.cdiv(max(tokens, 1), ROWS) * ROWS, width // BLOCK
        values = torch.empty((rows, width), dtype=torch.float8_e4m3fn, device=x.device)
        scales = torch.empty((groups, rows), dtype=torch.float32, device=x.device).T
        parts = triton.cdiv(groups, self.groups_per_program)
        quantise_kernel[(rows, parts)](
            *(x, values.view(torch.uint8), scales, tokens, x.stride(0), scales.stride(1)),
            GROUPS=groups,
            BLOCK_GROUPS=self.groups_per_program,
            CHANNELS=BLOCK,
            num_warps=self.num_warps,
            **launch_options(self.overlap, rows * parts),
        )
        return values, scales


@triton.jit(do_not_specialize=["tokens", "stride_scales"])
def quantise_kernel(
    p_x,
    p_values,
    p_scales,
    tokens,
    stride_x,
    stride_scales,
    GROUPS: tl.constexpr,
    BLOCK_GROUPS: tl.constexpr,
    CHANNELS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    wait_for_inputs(OVERLAP)
    i_row = tl.program_id(0).to(tl.int64)
    o_group = tl.program_id(1) * BLOCK_GROUPS + tl.arange(0, BLOCK_GROUPS)
    o_element = o_group[:, None] * CHANNELS + tl.arange(0, CHANNELS)[None, :]  # [BLOCK_GROUPS, CHANNELS]
    m_group = o_group < GROUPS
    m_element = m_group[:, None] & (o_element >= 0)
    b_x = tl.load(p_x + i_row * stride_x + o_element, mask=m_element & (i_row < tokens), other=0.0).to(tl.float32)
    b_values, b_exponent = quantised(b_x)
    tl.store(p_values + i_row * GROUPS * CHANNELS + o_element, b_values, mask=m_element)
    b_scale = (b_exponent << 23).to(tl.float32, bitcast=True)
    tl.store(p_scales + o_group.to(tl.int64) * stride_scales + i_row, b_scale, mask=m_group)
