"""Skip the indexer row by row, so that short rows gain beside a long one."""

from dataclasses import dataclass

import torch

from kernels.contracts import Batch, Scored


@dataclass(frozen=True)
class Shortcut:
    """Only rows with more than topk visible entries are scored. The device is asked only if there can be any."""

    def __call__(self, batch: Batch, ratio: int, topk: int) -> Scored:
        if batch.max_seq_len // ratio <= topk:
            return Scored(batch.rows.positions.new_empty(0, dtype=torch.int64))
        return Scored((batch.rows.visible(ratio) > topk).nonzero().squeeze(1))
