"""Sparse attention on Hopper by the kernel whose shape fits: keys fill wgmma's rows while heads or tokens are few."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import triton
from torch import Tensor

from kernels.attend import hopper_heads, hopper_keys
from kernels.attend.parts.knobs import SPLITS, check
from kernels.attend.parts.launch import refuse_shape
from kernels.contracts import Keys


@dataclass(frozen=True)
class Attend:
    device: ClassVar[str] = "cuda"
    splits: int | None = None  # programs that share a token's keys; None: chosen from tokens, heads and widths
    few: int = 32  # tokens times blocks of 64 heads up to which keys fill the rows, as they do up to 32 heads
    early: bool = True  # the combining launch starts while the other one runs

    def __post_init__(self) -> None:
        check("splits", self.splits, SPLITS)

    def refuses(self, model: Any) -> str | None:
        return refuse_shape(model)

    def __call__(self, q: Tensor, keys: Sequence[Keys], sink: Tensor | None, scale: float) -> Tensor:
        """q is bf16, the caches are one or two, both fp8_ds_mla or both plain bf16."""
        tokens, heads, _ = q.shape
        by_keys = heads <= 32 or tokens * triton.cdiv(heads, 64) <= self.few
        fitting = hopper_keys if by_keys else hopper_heads
        return fitting.Attend(splits=self.splits, early=self.early)(q, keys, sink, scale)
