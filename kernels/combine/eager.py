"""All columns of all tokens at once, in torch."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from kernels.contracts import Batch, Scored
from kernels.layouts import Workspace
from kernels.select.entries import entries_of


@dataclass(frozen=True)
class Combine:
    def __call__(
        self, chosen: Tensor | None, scored: Scored, batch: Batch, ratio: int, topk: int, space: Workspace
    ) -> tuple[Tensor, Tensor]:
        rows, columns = batch.rows, space.columns(topk)
        visible = rows.visible(ratio).clamp(0, topk)
        recent = (rows.positions + 1).clamp(0, space.window).masked_fill(~rows.valid, 0)
        entries = pad(entries_of(chosen, scored, rows, ratio, topk), (0, columns - topk), value=-1)
        first_row = space.entries + rows.positions + 1 - recent - space.first_tokens(batch.computed)[rows.request]
        column = torch.arange(columns, dtype=torch.int32, device=rows.positions.device)
        age = column - visible[:, None]
        held = torch.where(age < 0, entries, torch.where(age < recent[:, None], first_row[:, None] + age, -1))
        base = (rows.request * space.rows)[:, None]
        return torch.where(held < 0, -1, held + base), visible + recent
