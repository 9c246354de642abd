"""Decode every attended row once for the whole step; then gather, product, softmax, product, a few tokens at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from kernels.contracts import Keys

INF = float("inf")


@dataclass(frozen=True)
class Attend:
    keys_at_once: int = 4096  # tokens times keys: 4 MB in bf16 at the real width

    def __call__(self, q: Tensor, keys: Sequence[Keys], sink: Tensor | None, scale: float) -> Tensor:
        tokens, heads, _ = q.shape
        sink = q.new_full((heads,), -INF, dtype=torch.float32) if sink is None else sink
        rows, places = _pool(keys, q)
        step = max(1, self.keys_at_once // (1 + sum(p.shape[1] for p in places)))
        widths = [_widest(source, step) for source in keys]
        out = torch.empty_like(q)
        for start, *width in zip(range(0, tokens, step), *widths, strict=True):
            part = slice(start, start + step)
            place = pad(torch.cat([p[part, :w] for p, w in zip(places, width, strict=True)], 1), (0, 1))
            key = rows.index_select(0, place.flatten()).view(*place.shape, -1)
            barred = torch.zeros_like(place, dtype=torch.float32).masked_fill_(place == 0, -INF)
            logits = torch.add(barred[:, None], torch.bmm(q[part], key.mT), alpha=scale)
            logits[..., -1] = sink
            torch.bmm(logits.softmax(-1).to(q.dtype), key, out=out[part])
        keyless = ~torch.stack([p.any(1) for p in places]).any(0)
        return out.masked_fill_(keyless[:, None, None] | (sink == INF)[:, None], 0)


def _pool(keys: Sequence[Keys], q: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Every row that the step attends, once [U + 1, D], and for each source where its keys lie there [T, K].

    Row 0 is zero: it stands for no key, and for the value that the sink does not have.
    """
    rows, places = [q.new_zeros(1, q.shape[2])], []
    for source in keys:
        column = torch.arange(source.slots.shape[1], device=q.device)
        none = (source.slots < 0) | (column >= source.lengths[:, None])
        slots, place = torch.unique(source.slots.masked_fill(none, -1), return_inverse=True)
        places.append((place + sum(map(len, rows))).masked_fill_(none, 0))
        rows.append(source.cache.gather(slots, q.dtype))
    return torch.cat(rows), places


def _widest(source: Keys, step: int) -> list[int]:
    """For each `step` tokens, how many columns the longest of them looks at."""
    tokens, columns = source.slots.shape
    lengths = pad(source.lengths.clamp(0, columns), (0, -tokens % step))
    return lengths.view(-(-tokens // step), step).amax(1).tolist()
