"""Query and key of each token: norm, rotate, and remember the key in the window cache."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import rms_norm

from kernels.contracts import Pages, Rows
from kernels.layouts import Cache
from kernels.rope import Rope, rotate


@dataclass(frozen=True)
class Ingest:
    def __call__(
        self, q: Tensor, kv: Tensor, kv_norm: Tensor, eps: float, rope: Rope, rows: Rows, cache: Cache, pages: Pages
    ) -> Tensor:
        width = q.shape[-1:]
        key = rotate(rms_norm(kv.float(), width, kv_norm.float(), eps), rows.positions, rope)
        cache.insert(pages.slot_mapping.masked_fill(~rows.valid, -1), key)
        return rotate(rms_norm(q.float(), width, eps=eps), rows.positions, rope).to(q.dtype)
