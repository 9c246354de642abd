"""Top-k by threshold: everything above the k-th score, then the lowest entries that equal it."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TopK:
    """Entries come in ascending order. No full sort, no host synchronisation."""

    def __call__(self, scores: Tensor, visible: Tensor, topk: int) -> Tensor:
        width = scores.shape[1]
        column = torch.arange(max(width, topk), dtype=torch.int32, device=scores.device)
        held = column[:topk] < visible[:, None]  # [S, topk]
        if width <= topk:
            return torch.where(held, column, -1)

        ranked = scores.masked_fill(column >= visible[:, None], -torch.inf).nan_to_num_(
            -torch.inf, torch.inf, -torch.inf
        )
        threshold = ranked.topk(topk, sorted=False).values.amin(1, keepdim=True)
        above = ranked > threshold
        level = ranked == threshold  # where it is -inf also beyond the visible entries, but behind them
        room = topk - above.sum(1, keepdim=True)
        taken = above.logical_or_(level.logical_and_(level.cumsum(1, dtype=torch.int32) <= room))

        nth = column[1 : topk + 1].expand(len(scores), topk).contiguous()
        return torch.searchsorted(taken.cumsum(1, dtype=torch.int32), nth, out_int32=True).masked_fill_(~held, -1)
