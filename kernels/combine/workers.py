"""Some programs for each request, which stride over its tokens, a row of indices at a time (vLLM #52084)."""

from dataclasses import dataclass
from typing import ClassVar

import triton
import triton.language as tl
from torch import Tensor

from kernels.combine.rows import combined
from kernels.contracts import Batch, Scored
from kernels.layouts import Workspace
from kernels.select.fill import entries_of
from kernels.select.knobs import check_powers_of_two


@dataclass(frozen=True)
class Combine:
    device: ClassVar[str] = "cuda"
    workers: int = 256  # programs a request
    block: int = 1024  # columns at once
    num_warps: int = 4

    def __post_init__(self) -> None:
        check_powers_of_two(block=self.block, num_warps=self.num_warps)

    def __call__(
        self, chosen: Tensor | None, scored: Scored, batch: Batch, ratio: int, topk: int, space: Workspace
    ) -> tuple[Tensor, Tensor]:
        rows, requests = batch.rows, len(batch.seq_lens)
        entries = None if chosen is None else entries_of(chosen, scored, rows, ratio, topk)
        indices = rows.positions.new_empty(len(rows.positions), space.columns(topk))
        lengths = rows.positions.new_empty(len(rows.positions))
        combine_kernel[(requests, self.workers)](
            *(indices, lengths, entries, rows.positions, rows.valid, batch.query_start_loc, batch.seq_lens),
            *(len(rows.positions), indices.shape[1], topk, space.entries, space.rows),
            RATIO=ratio,
            WINDOW=space.window,
            BLOCK=self.block,
            num_warps=self.num_warps,
        )
        return indices, lengths


@triton.jit(do_not_specialize=["tokens", "entries", "stride_request"])
def combine_kernel(
    p_indices,
    p_lengths,
    p_chosen,
    p_positions,
    p_valid,
    p_start,
    p_seq_lens,
    tokens,
    columns,
    topk,
    entries,
    stride_request,
    RATIO: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Rows that pad the step fall to the last request."""
    i_request = tl.program_id(0)
    i_start = tl.load(p_start + i_request)
    i_stop = tl.load(p_start + i_request + 1)
    i_first = tl.maximum(tl.load(p_seq_lens + i_request) - (i_stop - i_start) - (WINDOW - 1), 0)
    if i_request == tl.num_programs(0) - 1:
        i_stop = tokens
    for i in range(i_start + tl.program_id(1), i_stop, tl.num_programs(1)):
        i_token = tl.cast(i, tl.int64)
        valid = tl.load(p_valid + i_token) != 0
        i_position = tl.load(p_positions + i_token)
        for start in range(0, columns, BLOCK):
            o_column = start + tl.arange(0, BLOCK)
            b_index, i_length = combined(
                *(p_chosen, i_token, i_position, i_first, valid, i_request * stride_request, o_column),
                *(topk, entries, RATIO, WINDOW, ""),
            )
            tl.store(p_indices + i_token * columns + o_column, b_index, mask=o_column < columns)
            if start == 0:
                tl.store(p_lengths + i_token, i_length)
