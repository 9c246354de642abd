"""Ingest a few tokens at a time, so that their float32 queries stay in the processor's cache."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import rms_norm

from kernels.contracts import Pages, Rows
from kernels.layouts import Cache
from kernels.rope import Rope, rotate


@dataclass(frozen=True)
class Ingest:
    vectors_at_once: int = 1024  # query heads times tokens

    def __call__(
        self, q: Tensor, kv: Tensor, kv_norm: Tensor, eps: float, rope: Rope, rows: Rows, cache: Cache, pages: Pages
    ) -> Tensor:
        tokens, heads, width = q.shape
        key = rotate(rms_norm(kv.float(), (width,), kv_norm.float(), eps), rows.positions, rope)
        cache.insert(pages.slot_mapping.masked_fill(~rows.valid, -1), key)
        out = torch.empty_like(q)
        step = max(1, self.vectors_at_once // heads)
        for start in range(0, tokens, step):
            part = slice(start, start + step)
            out[part] = rotate(rms_norm(q[part].float(), (width,), eps=eps), rows.positions[part], rope)
        return out
