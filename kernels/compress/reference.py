"""Store each token's (kv, score), then pool every window that closes in this step into one entry."""

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
    def __call__(
        self, streams: Sequence[Stream], eps: float, rope: Rope, rows: Rows, state_pages: Pages, pages: Pages
    ) -> None:
        stored = state_pages.slot_mapping.masked_fill(~rows.valid, -1)
        closed = pages.slot_mapping.masked_fill(~rows.valid, -1)
        for stream in streams:
            score = stream.score + stream.ape[rows.positions.long() % stream.ape.shape[0]]
            stream.state.insert(stored, torch.cat((stream.kv, score), 1))
            for t in (closed >= 0).nonzero().flatten().tolist():
                entry = pool(stream, rows.positions[t], rows.request[t], state_pages)
                first = rows.positions[t : t + 1] + 1 - stream.ape.shape[0]
                entry = rms_norm(entry[None], entry.shape, stream.norm.float(), eps)
                stream.cache.insert(closed[t : t + 1], rotate(entry, first, rope))


def pool(stream: Stream, position: Tensor, request: Tensor, state_pages: Pages) -> Tensor:
    """float32 [d]: the entry of the window that the token at `position` closes, before its norm."""
    ratio, d = stream.ape.shape[0], stream.norm.numel()
    windows = stream.ape.shape[1] // d
    tokens = position + torch.arange(1 - windows * ratio, 1, device=position.device)
    slots = slots_of(state_pages.block_table, request, tokens, state_pages.page_size)
    kv, score = stream.state.gather(slots).chunk(2, 1)
    score = score.masked_fill((tokens < 0)[:, None], -torch.inf)
    blocks = [(slice(i * ratio, (i + 1) * ratio), slice(i * d, (i + 1) * d)) for i in range(windows)]
    kv, score = (torch.cat([x[block] for block in blocks]) for x in (kv, score))
    return (score.softmax(0) * kv).sum(0)
