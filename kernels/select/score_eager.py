"""Scores by matrix products: requests with as many rows share one, in q's dtype; heads are summed in float32."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.contracts import Pages, Rows
from kernels.layouts import Cache, slots_of
from kernels.rope import Rope, rotate
from kernels.select.query import query_for


@dataclass(frozen=True)
class Score:
    """`products_per_block`: head-entry products held in memory at a time."""

    products_per_block: int = 1 << 22

    def __call__(
        self, q: Tensor, weights: Tensor, rope: Rope, rows: Rows, cache: Cache, pages: Pages, ratio: int, width: int
    ) -> Tensor:
        heads, channels = q.shape[1:]
        visible = rows.visible(ratio)
        scores = torch.full((len(q), width), -torch.inf, device=q.device)
        for block in _blocks(rows, max(self.products_per_block // max(heads * width, 1), 1)):
            entries = torch.arange(int(visible[block].max()), device=q.device)
            keys = cache.gather(
                slots_of(pages.block_table, rows.request[block[:, :1]], entries, pages.page_size), q.dtype
            )
            values, scales = query_for(cache, rotate(q[block].flatten(0, 1), rows.positions[block].flatten(), rope))
            products = values.view(len(block), -1, channels) @ keys.mT  # [G, t * I, n]
            products = products.float().relu_().view(*block.shape, heads, len(entries))
            scale = weights[block].float() * scales.view(*block.shape, heads) * channels**-0.5 * heads**-0.5
            scores[block, : len(entries)] = (scale[:, :, None] @ products).squeeze(2)
        column = torch.arange(width, device=q.device)
        return scores.masked_fill_(column >= visible[:, None], -torch.inf)


def _blocks(rows: Rows, size: int) -> Iterator[Tensor]:
    """Row numbers int64 [G, t] of at most `size` rows: t neighbouring ones of each of G requests. No padded row."""
    live = rows.valid.nonzero().squeeze(1)
    counts = rows.request[live].unique_consecutive(return_counts=True)[1]
    starts = counts.cumsum(0) - counts
    for count in counts.unique().tolist():
        run = torch.arange(count, device=live.device)
        members = live[starts[counts == count, None] + run]  # [requests with so many rows, count]
        for group in members.split(max(size // count, 1)):
            yield from group.split(size, 1)
