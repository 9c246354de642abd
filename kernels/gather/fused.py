"""Both caches into the workspace in one launch: tiles of rows of one request and one cache."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import triton
import triton.language as tl

from kernels.contracts import Batch, Pages
from kernels.fetch import fetch, layout_of
from kernels.gather.budget import MAX_ROWS, rows_within
from kernels.layouts import Cache, PlainCache, Workspace
from kernels.select.knobs import check_powers_of_two


@dataclass(frozen=True)
class Gather:
    device: ClassVar[str] = "cuda"
    max_rows: int = MAX_ROWS
    rows_per_program: int = 8
    num_warps: int = 4

    def __post_init__(self) -> None:
        check_powers_of_two(rows_per_program=self.rows_per_program, num_warps=self.num_warps)

    def __call__(
        self,
        main: Cache | None,
        main_pages: Pages | None,
        window: Cache,
        window_pages: Pages,
        batch: Batch,
        ratio: int,
        space: Workspace,
        dtype: torch.dtype,
    ) -> PlainCache:
        requests = len(batch.seq_lens)
        rows = rows_within(self.max_rows, requests, space)
        workspace = window.data.new_empty((rows, 1, window.width), dtype=dtype)
        if not ratio:  # the window stands in for a cache that is not there, and no tile reads it
            main, main_pages = window, window_pages
        (scaled, *main_layout), (same, *window_layout) = layout_of(main), layout_of(window)
        assert scaled == same and main_layout[2:] == window_layout[2:], (main, window)
        channels, rotated = window_layout[2:]
        entry_tiles = triton.cdiv(space.entries, self.rows_per_program)
        gather_kernel[(entry_tiles + triton.cdiv(space.tokens, self.rows_per_program), requests)](
            *(workspace, main.data, window.data, main_pages.block_table, window_pages.block_table),
            *(batch.query_start_loc, batch.seq_lens, space.entries, entry_tiles, space.rows),
            *(main_pages.block_table.stride(0), window_pages.block_table.stride(0)),
            RATIO=max(ratio, 1),
            WINDOW=space.window,
            FP8=scaled,
            PAGES=(main_layout[0], window_layout[0]),
            STRIDES=(main_layout[1], window_layout[1]),
            A=channels,
            B=rotated,
            BLOCK_A=max(triton.next_power_of_2(channels), 16),
            BLOCK_B=max(triton.next_power_of_2(rotated), 16),
            ROWS=self.rows_per_program,
            num_warps=self.num_warps,
        )
        return PlainCache(workspace)


@triton.jit(do_not_specialize=["entries", "entry_tiles", "stride_request", "stride_main", "stride_window"])
def gather_kernel(
    p_space,
    p_main,
    p_window,
    p_main_table,
    p_window_table,
    p_start,
    p_seq_lens,
    entries,
    entry_tiles,
    stride_request,
    stride_main,
    stride_window,
    RATIO: tl.constexpr,
    WINDOW: tl.constexpr,
    FP8: tl.constexpr,
    PAGES: tl.constexpr,
    STRIDES: tl.constexpr,
    A: tl.constexpr,
    B: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK_B: tl.constexpr,
    ROWS: tl.constexpr,
):
    i_tile = tl.program_id(0)
    i_request = tl.program_id(1).to(tl.int64)
    i_length = tl.load(p_seq_lens + i_request)
    o_row = tl.arange(0, ROWS)
    p_request = p_space + i_request * stride_request * (A + B)
    if i_tile < entry_tiles:
        o_row += i_tile * ROWS
        p_table = p_main_table + i_request * stride_main
        m_row = o_row < tl.minimum(i_length // RATIO, entries)
        _copy(p_request, o_row, p_main, p_table, o_row, m_row, FP8, PAGES[0], STRIDES[0], A, B, BLOCK_A, BLOCK_B)
    else:
        o_row += (i_tile - entry_tiles) * ROWS
        i_count = tl.load(p_start + i_request + 1) - tl.load(p_start + i_request)
        b_token = tl.maximum(i_length - i_count - (WINDOW - 1), 0) + o_row
        m_row = b_token < i_length
        o_row += entries
        p_table = p_window_table + i_request * stride_window
        _copy(p_request, o_row, p_window, p_table, b_token, m_row, FP8, PAGES[1], STRIDES[1], A, B, BLOCK_A, BLOCK_B)


@triton.jit
def _copy(
    p_space,
    o_row,
    p_cache,
    p_table,
    b_number,
    m_row,
    FP8: tl.constexpr,
    PAGE: tl.constexpr,
    STRIDE: tl.constexpr,
    A: tl.constexpr,
    B: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK_B: tl.constexpr,
):
    """Rows b_number of the request's own, to o_row of its part of the workspace."""
    dtype: tl.constexpr = p_space.dtype.element_ty
    b_page = tl.load(p_table + b_number // PAGE, mask=m_row, other=0)
    b_slots = tl.where(m_row, b_page * PAGE + b_number % PAGE, -1)
    b_a, b_b = fetch(p_cache, b_slots, FP8, PAGE, STRIDE, A, B, BLOCK_A, BLOCK_B, dtype)
    o_a = tl.arange(0, BLOCK_A)
    o_b = tl.arange(0, BLOCK_B)
    p_row = p_space + o_row.to(tl.int64)[:, None] * (A + B)
    tl.store(p_row + o_a[None, :], b_a, mask=m_row[:, None] & (o_a < A)[None, :])
    tl.store(p_row + A + o_b[None, :], b_b, mask=m_row[:, None] & (o_b < B)[None, :])
