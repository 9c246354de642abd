"""Skip the indexer for the whole batch."""

from dataclasses import dataclass

import torch

from kernels.contracts import Batch, Scored


@dataclass(frozen=True)
class Shortcut:
    """No row is scored when the longest request of the batch has at most topk entries (vLLM #49486), else all are.

    The division floors: with ratio 4 and topk 512 the longest such request has 2,051 tokens.
    """

    def __call__(self, batch: Batch, ratio: int, topk: int) -> Scored:
        if batch.max_seq_len // ratio > topk:
            return Scored(None)
        return Scored(batch.rows.positions.new_empty(0, dtype=torch.int64))
