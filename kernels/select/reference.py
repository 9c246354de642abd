"""The definition of select: score every entry, keep the best, say where they lie."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.contracts import Batch, Pages, Rows, Scored
from kernels.layouts import Cache
from kernels.rope import Rope, rotate
from kernels.select.query import query_for


@dataclass(frozen=True)
class Shortcut:
    """Never: every row is scored."""

    def __call__(self, batch: Batch, ratio: int, topk: int) -> Scored:
        return Scored(None)


@dataclass(frozen=True)
class Score:
    def __call__(
        self, q: Tensor, weights: Tensor, rope: Rope, rows: Rows, cache: Cache, pages: Pages, ratio: int, width: int
    ) -> Tensor:
        heads, channels = q.shape[1:]
        values, scales = query_for(cache, rotate(q.float(), rows.positions, rope))
        weights = weights.float() * scales * channels**-0.5 * heads**-0.5
        scores = torch.full((len(q), width), -torch.inf, device=q.device)
        for row, visible in enumerate(rows.visible(ratio).tolist()):
            entries = torch.arange(visible, device=q.device)
            keys = cache.gather(_slots(entries, rows.request[row], pages))
            scores[row, :visible] = weights[row] @ (values[row] @ keys.T).relu()
        return scores


@dataclass(frozen=True)
class TopK:
    def __call__(self, scores: Tensor, visible: Tensor, topk: int) -> Tensor:
        chosen = torch.full((len(scores), topk), -1, dtype=torch.int32, device=scores.device)
        for row, count in enumerate(visible.tolist()):
            known = scores[row, :count].nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
            best = known.argsort(descending=True, stable=True)[:topk]
            chosen[row, : len(best)] = best
        return chosen


@dataclass(frozen=True)
class Locate:
    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        tokens, device = len(rows.positions), rows.positions.device
        scored_rows = range(tokens) if scored.index is None else scored.index.tolist()
        choice = {} if chosen is None else dict(zip(scored_rows, chosen, strict=True))
        slots = torch.full((tokens, width), -1, dtype=torch.int32, device=device)
        lengths = torch.zeros(tokens, dtype=torch.int32, device=device)
        for row, visible in enumerate(rows.visible(ratio).tolist()):
            if not rows.valid[row]:
                continue
            entries = choice.get(row, torch.arange(visible, device=device))
            entries = entries[entries >= 0]
            slots[row, : len(entries)] = _slots(entries, rows.request[row], pages)
            lengths[row] = len(entries)
        return slots, lengths


def _slots(entries: Tensor, request: Tensor, pages: Pages) -> Tensor:
    table = pages.block_table[request].long()
    return table[entries // pages.page_size] * pages.page_size + entries % pages.page_size
