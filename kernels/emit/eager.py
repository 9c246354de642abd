"""Emit with both projections in the dtype of the input."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.contracts import Rows
from kernels.rope import Rope, rotate


@dataclass(frozen=True)
class Emit:
    def __call__(self, o: Tensor, rope: Rope, rows: Rows, wo_a: Tensor, wo_b: Tensor) -> Tensor:
        groups, _, width = wo_a.shape
        turned = rotate(o, rows.positions, rope, inverse=True).reshape(-1, groups, width)
        latent = torch.bmm(turned.transpose(0, 1), wo_a.mT)
        return latent.transpose(0, 1).flatten(1) @ wo_b.T
