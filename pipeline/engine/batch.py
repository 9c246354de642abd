"""One step of the schedule as the tensors that the kernels read."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from kernels.contracts import Batch, Pages, Rows
from pipeline.engine.pages import NULL_PAGE, PagePool


@dataclass(frozen=True)
class Part:
    """The tokens of one request in a step: `start` tokens are done, `tokens` follow."""

    request: int
    start: int
    tokens: int


@dataclass(frozen=True)
class StepInputs:
    """`pages` holds one address space for each cache: window, KIND.entries, KIND.state."""

    batch: Batch
    pages: dict[str, Pages]
    window_slots: torch.Tensor  # int32 [T, W], ascending, -1 at the tail
    window_lengths: torch.Tensor  # int32 [T]
    visible: dict[str, torch.Tensor]  # int32 [T] of each kind that compresses: entries that a token may attend
    tokens: int  # real rows; the rows behind them are padding

    @property
    def decodes(self) -> bool:
        """Every request has one token."""
        return self.tokens == len(self.batch.seq_lens)


def step_inputs(
    parts: Sequence[Part], pools: dict[str, PagePool], window: int, device: torch.device, padding: int = 0
) -> StepInputs:
    """`padding` inert rows are appended: position 0, no slot, not valid."""
    counts = np.array([part.tokens for part in parts], np.int64)
    tokens = int(counts.sum())
    starts = np.concatenate([[0], np.cumsum(counts)])
    request = np.repeat(np.arange(len(parts)), counts)
    positions = np.arange(tokens) - starts[request] + np.array([part.start for part in parts], np.int64)[request]
    lengths = np.array([part.start + part.tokens for part in parts], np.int64)

    def padded(values: np.ndarray, fill: int, dtype: type) -> torch.Tensor:
        tail = np.full((padding, *values.shape[1:]), fill)
        return torch.from_numpy(np.concatenate([values, tail]).astype(dtype)).to(device)

    def upload(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values.astype(np.int32)).to(device)

    tables = {name: pool.block_table([part.request for part in parts]) for name, pool in pools.items()}

    def address(name: str) -> Pages:
        space, table = pools[name].space, tables[name]
        closes = (positions + 1) % space.tokens_per_row == 0
        slots = _slots(table, request, np.where(closes, positions // space.tokens_per_row, 0), space.page_size)
        return Pages(upload(table), space.page_size, padded(np.where(closes, slots, -1), -1, np.int64))

    seen = np.minimum(positions + 1, window)
    columns = np.arange(window)
    inside = columns < seen[:, None]
    raw = np.where(inside, positions[:, None] + 1 - seen[:, None] + columns, 0)
    window_slots = np.where(
        inside, _slots(tables["window"], request[:, None], raw, pools["window"].space.page_size), -1
    )
    return StepInputs(
        batch=Batch(
            rows=Rows(
                padded(positions, 0, np.int32),
                padded(request, 0, np.int32),
                padded(np.ones(tokens), 0, np.bool_),
            ),
            query_start_loc=upload(starts),
            seq_lens=upload(lengths),
            max_seq_len=int(lengths.max(initial=0)),
        ),
        pages={name: address(name) for name in pools},
        window_slots=padded(window_slots, -1, np.int32),
        window_lengths=padded(seen, 0, np.int32),
        visible={
            name.removesuffix(".entries"): padded((positions + 1) // pool.space.tokens_per_row, 0, np.int32)
            for name, pool in pools.items()
            if name.endswith(".entries")
        },
        tokens=tokens,
    )


def _slots(table: np.ndarray, request: np.ndarray, rows: np.ndarray, page_size: int) -> np.ndarray:
    return table[request, rows // page_size].astype(np.int64) * page_size + rows % page_size


def entries_of(slots: torch.Tensor, rows: Rows, pages: Pages) -> torch.Tensor:
    """Slots int32 [T, K] back to entry numbers of the requests, int64 [T, K]; -1 stays, a foreign slot gives -2."""
    entries = torch.full_like(slots, -2, dtype=torch.int64)
    for request, table in enumerate(pages.block_table.long()):
        mine = rows.valid & (rows.request == request)
        column_of = table.new_full((int(table.max()) + 1,), -1)
        column_of[table] = torch.arange(len(table), device=table.device)
        column_of[NULL_PAGE] = -1
        page, row = slots[mine].long() // pages.page_size, slots[mine] % pages.page_size
        column = column_of[page.clamp(0, len(column_of) - 1)].masked_fill(page >= len(column_of), -1)
        found = torch.where(column < 0, -2, column * pages.page_size + row)
        entries[mine] = found
    return entries.masked_fill(slots < 0, -1)
