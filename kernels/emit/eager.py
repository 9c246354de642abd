"""Emit with its projection in the dtype of the input."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.contracts import Rows
from kernels.rope import Rope, rotate


@dataclass(frozen=True)
class Emit:
    def __call__(self, o: Tensor, rope: Rope, rows: Rows, wo_a: Tensor) -> Tensor:
        groups, rank, width = wo_a.shape
        turned = rotate(o, rows.positions, rope, inverse=True).reshape(-1, groups, width)
        latent = o.new_empty(len(o), groups, rank)
        torch.bmm(turned.transpose(0, 1), wo_a.mT, out=latent.transpose(0, 1))
        return latent.flatten(1)
