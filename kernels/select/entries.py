"""Which entries each row attends, in torch: those chosen for it, or all that it can see."""

import torch
from torch import Tensor

from kernels.contracts import Rows, Scored


def entries_of(chosen: Tensor | None, scored: Scored, rows: Rows, ratio: int, width: int) -> Tensor:
    """int32 [T, width], -1 at the tail and in padded rows."""
    column = torch.arange(width, dtype=torch.int32, device=rows.positions.device)
    entries = torch.where(column < rows.visible(ratio)[:, None], column, -1)
    if chosen is not None:
        assert chosen.shape[1] == width, (chosen.shape, width)
        entries[slice(None) if scored.index is None else scored.index] = chosen
        entries.masked_fill_(~rows.valid[:, None], -1)
    return entries
