"""The definition of combine: for each token, its entries and then its window, as rows of the workspace."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.contracts import Batch, Scored
from kernels.layouts import Workspace


@dataclass(frozen=True)
class Combine:
    def __call__(
        self, chosen: Tensor | None, scored: Scored, batch: Batch, ratio: int, topk: int, space: Workspace
    ) -> tuple[Tensor, Tensor]:
        rows, first = batch.rows, space.first_tokens(batch.computed).tolist()
        scored_rows = range(len(rows.positions)) if scored.index is None else scored.index.tolist()
        choice = {} if chosen is None else dict(zip(scored_rows, chosen.tolist(), strict=True))
        indices = rows.positions.new_full((len(rows.positions), space.columns(topk)), -1)
        lengths = torch.zeros_like(rows.positions)
        for row, position in enumerate(rows.positions.tolist()):
            if not rows.valid[row] or position < 0:
                continue
            request = int(rows.request[row])
            visible = min((position + 1) // ratio, topk) if ratio else 0
            entries = choice.get(row, range(visible))[:visible]
            window = range(max(position + 1 - space.window, 0), position + 1)
            held = [*entries, *(space.entries + token - first[request] for token in window)]
            places = [request * space.rows + place if place >= 0 else -1 for place in held]
            indices[row, : len(held)] = torch.tensor(places)
            lengths[row] = len(held)
        return indices, lengths
