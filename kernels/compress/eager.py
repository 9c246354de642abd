"""Store all tokens at once, then pool all windows that close, some at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import rms_norm

from kernels.contracts import Pages, Rows, Stream
from kernels.layouts import slots_of
from kernels.rope import Rope, rotate


@dataclass(frozen=True)
class Compress:
    tokens_at_once: int = 512  # state rows that are pooled together

    def __call__(
        self, streams: Sequence[Stream], eps: float, rope: Rope, rows: Rows, state_pages: Pages, pages: Pages
    ) -> None:
        stored = state_pages.slot_mapping.masked_fill(~rows.valid, -1)
        closing = ((pages.slot_mapping >= 0) & rows.valid).nonzero().flatten()
        last, request = rows.positions[closing], rows.request[closing]
        for stream in streams:
            ratio, windows = _geometry(stream)
            score = stream.score + stream.ape[rows.positions.long() % ratio]
            stream.state.insert(stored, torch.cat((stream.kv, score), 1))
            tokens = last[:, None] + torch.arange(1 - windows * ratio, 1, device=last.device)
            slots = slots_of(state_pages.block_table, request[:, None], tokens, state_pages.page_size)
            step = max(1, self.tokens_at_once // (windows * ratio))
            entries = torch.cat([_pool(stream, part) for part in slots.split(step)])
            entries = rms_norm(entries, entries.shape[1:], stream.norm.float(), eps)
            stream.cache.insert(pages.slot_mapping[closing], rotate(entries, last + 1 - ratio, rope))


def _pool(stream: Stream, slots: Tensor) -> Tensor:
    """slots [M, F * C] of the rows of M windows -> float32 [M, d]."""
    ratio, windows = _geometry(stream)
    # [M, F, C, 2, F, d]: of the rows of window f only the channels f are used
    rows = stream.state.gather(slots).view(len(slots), windows, ratio, 2, windows, stream.norm.numel())
    kv, score = rows.diagonal(0, 1, 4).movedim(-1, 1).flatten(1, 2).unbind(2)
    score = score.masked_fill((slots < 0)[..., None], -torch.inf)
    return (score.softmax(1) * kv).sum(1)


def _geometry(stream: Stream) -> tuple[int, int]:
    """Tokens per window C, and windows per entry F."""
    ratio, width = stream.ape.shape
    return ratio, width // stream.norm.numel()
