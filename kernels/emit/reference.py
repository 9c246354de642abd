"""Turn the heads' outputs back by the query's position, then project them group by group."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.contracts import Rows
from kernels.rope import Rope, rotate


@dataclass(frozen=True)
class Emit:
    def __call__(self, o: Tensor, rope: Rope, rows: Rows, wo_a: Tensor) -> Tensor:
        groups, _, width = wo_a.shape
        turned = rotate(o.float(), rows.positions, rope, inverse=True).reshape(-1, groups, width)
        latent = torch.einsum("tgw,grw->tgr", turned, wo_a.float())
        return latent.flatten(1).to(o.dtype)
