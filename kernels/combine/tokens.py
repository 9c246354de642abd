"""Parallel over tokens and columns, whatever the request: a few rows a program, a tile of columns of each."""

from dataclasses import dataclass
from typing import ClassVar

import triton
import triton.language as tl
from torch import Tensor

from kernels.combine.rows import combined
from kernels.contracts import Batch, Scored
from kernels.layouts import Workspace
from kernels.overlap import launch_options, wait_for_inputs
from kernels.select.fill import entries_of
from kernels.select.knobs import check_powers_of_two


@dataclass(frozen=True)
class Combine:
    device: ClassVar[str] = "cuda"
    rows_per_program: int = 8
    block: int = 128  # columns of a tile: the width is a multiple of it
    num_warps: int = 1
    overlap: bool = False
    keep_indices: bool = False  # in L2, rather than the chosen entries: worth it where both do not fit

    def __post_init__(self) -> None:
        check_powers_of_two(rows_per_program=self.rows_per_program, block=self.block, num_warps=self.num_warps)

    def __call__(
        self, chosen: Tensor | None, scored: Scored, batch: Batch, ratio: int, topk: int, space: Workspace
    ) -> tuple[Tensor, Tensor]:
        rows, columns = batch.rows, space.columns(topk)
        entries = None if chosen is None else entries_of(chosen, scored, rows, ratio, topk)
        indices = rows.positions.new_empty(len(rows.positions), columns)
        lengths = rows.positions.new_empty(len(rows.positions))
        grid = triton.cdiv(len(lengths), self.rows_per_program), triton.cdiv(columns, self.block)
        if len(lengths):
            combine_kernel[grid](
                *(indices, lengths, entries, rows.positions, rows.request, rows.valid),
                *(batch.query_start_loc, batch.seq_lens),
                *(len(lengths), columns, topk, space.entries, space.rows),
                RATIO=ratio,
                WINDOW=space.window,
                ROWS=self.rows_per_program,
                BLOCK=self.block,
                LOAD="evict_first" if self.keep_indices else "",
                STORE="evict_last" if self.keep_indices else "",
                num_warps=self.num_warps,
                **launch_options(self.overlap, grid[0] * grid[1]),
            )
        return indices, lengths


@triton.jit(do_not_specialize=["tokens", "entries", "stride_request"])
def combine_kernel(
    p_indices,
    p_lengths,
    p_chosen,
    p_positions,
    p_request,
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
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    LOAD: tl.constexpr,
    STORE: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    wait_for_inputs(OVERLAP)
    o_column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    for i in tl.static_range(ROWS):
        i_token = tl.program_id(0).to(tl.int64) * ROWS + i
        inside = i_token < tokens
        i_position = tl.load(p_positions + i_token, mask=inside, other=0)
        valid = tl.load(p_valid + i_token, mask=inside, other=0) != 0
        i_request = tl.load(p_request + i_token, mask=inside, other=0)
        i_count = tl.load(p_start + i_request + 1) - tl.load(p_start + i_request)
        i_first = tl.maximum(tl.load(p_seq_lens + i_request) - i_count - (WINDOW - 1), 0)
        b_index, i_length = combined(
            *(p_chosen, i_token, i_position, i_first, valid, i_request * stride_request, o_column),
            *(topk, entries, RATIO, WINDOW, LOAD),
        )
        p_row = p_indices + i_token * columns
        tl.store(p_row + o_column, b_index, mask=inside & (o_column < columns), eviction_policy=STORE)
        if tl.program_id(1) == 0:
            tl.store(p_lengths + i_token, i_length, mask=inside)
