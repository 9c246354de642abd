"""Index scores by tiles: the entries of a page against all heads of one or more rows, for decode and prefill."""

from dataclasses import dataclass
from typing import Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.contracts import Pages, Rows
from kernels.layouts import Cache, FP8IndexCache, PlainCache
from kernels.overlap import launch_options, wait_for_inputs
from kernels.rope import Rope
from kernels.rotary import refusal
from kernels.select.knobs import check_powers_of_two
from kernels.select.query_fused import prepare

SCORE_ALIGNMENT = 64  # scores between the starts of two rows are a multiple of this


class Model(Protocol):
    index_dim: int
    rope_dim: int


@dataclass(frozen=True)
class Score:
    """Neighbouring rows share the entries that they read where they belong to one request.

    `rows_per_program` None: as many as a request has rows, at most `most_rows`. `programs`: about how many to start;
    the entries of a row are dealt out among them, `entries` at a time. `stages` None: by rows and entries of a program.
    Rows with visible <= `skip_up_to` are not scored: for a top-k that takes all entries of such rows unseen. `fill`:
    write -inf behind the visible entries too. `overlap`: kernels.overlap.
    """

    rows_per_program: int | None = None
    most_rows: int = 4
    entries: int = 64
    programs: int = 528
    warps: int = 4
    stages: int | None = None
    registers: int | None = None
    skip_up_to: int = 0
    fill: bool = True
    heads_per_program: int = 16
    query_warps: int = 4
    overlap: bool = False

    def __post_init__(self) -> None:
        check_powers_of_two(
            rows_per_program=self.rows_per_program,
            most_rows=self.most_rows,
            entries=self.entries,
            warps=self.warps,
            heads_per_program=self.heads_per_program,
            query_warps=self.query_warps,
        )

    def refuses(self, model: Model) -> str | None:
        return refusal(model.index_dim, model.rope_dim)

    def __call__(
        self, q: Tensor, weights: Tensor, rope: Rope, rows: Rows, cache: Cache, pages: Pages, ratio: int, width: int
    ) -> Tensor:
        count, heads, channels = len(q), _power_of_two(q.shape[1], 16), _power_of_two(q.shape[2], 32)
        keys, scales, page_stride = _planes(cache)
        values, scaled = prepare(
            q,
            weights,
            rope,
            rows,
            ratio,
            keys.dtype,
            heads,
            channels,
            self.skip_up_to,
            min(self.heads_per_program, heads),
            self.query_warps,
            self.overlap,
        )
        block_q = self.rows_per_program or min(
            triton.next_power_of_2(max(count // len(pages.block_table), 1)), self.most_rows
        )
        blocks, tiles = triton.cdiv(count, block_q), triton.cdiv(width, self.entries)
        splits = max(min(self.programs // max(blocks, 1), tiles), 1)
        stride = -(-width // SCORE_ALIGNMENT) * SCORE_ALIGNMENT
        scores = torch.empty((count, stride), dtype=torch.float32, device=q.device)
        _score[(blocks, splits)](
            values,
            scaled,
            keys,
            scales,
            pages.block_table,
            rows.positions,
            rows.request,
            rows.valid,
            scores,
            count,
            width,
            scores.stride(0),
            pages.block_table.stride(0),
            RATIO=ratio,
            SKIP=self.skip_up_to,
            FILL=self.fill,
            X=cache.width,
            HEADS=heads,
            CHANNELS=channels,
            PAGE=cache.page_size,
            PAGE_STRIDE=page_stride,
            SCALED=isinstance(cache, FP8IndexCache),
            BLOCK_Q=block_q,
            BLOCK_N=self.entries,
            STAGES=self.stages or _stages(block_q, tiles // splits),
            num_warps=self.warps,
            **launch_options(self.overlap, blocks * splits),
            **({} if self.registers is None else {"maxnreg": self.registers}),
        )
        return scores[:, :width]


def _planes(cache: Cache) -> tuple[Tensor, Tensor, int]:
    """Keys, their scales (if any), and the keys' elements from one page to the next."""
    if isinstance(cache, FP8IndexCache):
        return cache.data.view(torch.float8_e4m3fn), cache.data.view(torch.float32), cache.data.stride(0)
    assert isinstance(cache, PlainCache), type(cache)
    return cache.data, cache.data, cache.data.stride(0)


def _stages(rows: int, tiles: int) -> int:
    """The page of a tile is loaded stages before the tile, so there are more of them than tiles in flight."""
    if rows > 1:
        return 7 if rows >= 4 else 5
    return 5 if tiles >= 4 else 4


def _power_of_two(size: int, least: int) -> int:
    return max(triton.next_power_of_2(size), least)


@triton.jit(do_not_specialize=["count", "width", "table_stride"])
def _score(
    p_values,
    p_weights,
    p_keys,
    p_scales,
    p_table,
    p_positions,
    p_request,
    p_valid,
    p_scores,
    count,
    width,
    score_stride,
    table_stride,
    RATIO: tl.constexpr,
    SKIP: tl.constexpr,
    FILL: tl.constexpr,
    X: tl.constexpr,
    HEADS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PAGE: tl.constexpr,
    PAGE_STRIDE: tl.constexpr,
    SCALED: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    wait_for_inputs(OVERLAP)
    i_first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_Q  # the longest rows of a prefill first
    i_split, splits = tl.program_id(1), tl.num_programs(1)
    o_q = i_first + tl.arange(0, BLOCK_Q)
    m_q = o_q < count
    b_visible = (tl.load(p_positions + o_q, mask=m_q, other=-1) + 1) // RATIO
    b_visible = tl.where(tl.load(p_valid + o_q, mask=m_q, other=0) & (b_visible > SKIP), b_visible, 0)
    b_request = tl.load(p_request + o_q, mask=m_q, other=-1)
    p_row = p_scores + o_q.to(tl.int64)[None, :] * score_stride  # [1, BLOCK_Q]

    o_head = tl.arange(0, BLOCK_Q * HEADS)
    o_channel = tl.arange(0, CHANNELS)
    p_query = p_values + i_first.to(tl.int64) * HEADS * CHANNELS
    m_head = o_head < (count - i_first) * HEADS
    b_query = tl.load(p_query + o_head[:, None] * CHANNELS + o_channel[None, :], mask=m_head[:, None], other=0.0)
    b_query = tl.trans(b_query)  # [CHANNELS, BLOCK_Q * HEADS]
    b_weight = tl.load(p_weights + i_first.to(tl.int64) * HEADS + o_head, mask=m_head, other=0.0)

    for i in range(BLOCK_Q):
        request = tl.load(p_request + tl.minimum(i_first + i, count - 1))
        previous = tl.load(p_request + tl.minimum(tl.maximum(i_first + i - 1, i_first), count - 1))
        if (i == 0) | (request != previous):
            m_member = b_request == request
            b_end = tl.where(m_member, b_visible, 0)
            end = tl.max(b_end, 0)
            p_pages = p_table + request.to(tl.int64) * table_stride
            for i_tile in tl.range(i_split, tl.cdiv(end, BLOCK_N), splits, num_stages=STAGES):
                o_n = i_tile * BLOCK_N + tl.arange(0, BLOCK_N)
                if PAGE % BLOCK_N == 0:
                    page = tl.load(p_pages + i_tile * BLOCK_N // PAGE).to(tl.int64)
                    b_slot = i_tile * BLOCK_N % PAGE + tl.arange(0, BLOCK_N)
                    p_key = p_keys + page * PAGE_STRIDE + b_slot[:, None] * X + o_channel[None, :]
                else:
                    page = tl.load(p_pages + o_n // PAGE, mask=o_n < end, other=0).to(tl.int64)
                    b_slot = o_n % PAGE
                    p_key = p_keys + (page * PAGE_STRIDE + b_slot * X)[:, None] + o_channel[None, :]
                b_key = tl.load(p_key) if X == CHANNELS else tl.load(p_key, mask=o_channel[None, :] < X, other=0.0)
                b_score = tl.dot(b_key, b_query, input_precision="ieee")  # [BLOCK_N, BLOCK_Q * HEADS]
                b_score = (b_score + tl.abs(b_score)) * b_weight[None, :]
                b_score = tl.sum(tl.reshape(b_score, [BLOCK_N, BLOCK_Q, HEADS]), 2)
                if SCALED:
                    p_scale = p_scales + page * (PAGE_STRIDE // 4) + PAGE * X // 4
                    b_score *= tl.load(p_scale + b_slot)[:, None]
                b_score = tl.where(o_n[:, None] < b_end[None, :], b_score, float("-inf"))
                tl.store(p_row + o_n[:, None], b_score, mask=(o_n[:, None] < width) & m_member[None, :])
            if FILL:
                done = i_split + tl.cdiv(tl.maximum(tl.cdiv(end, BLOCK_N) - i_split, 0), splits) * splits
                for i_tile in range(done, tl.cdiv(width, BLOCK_N), splits):
                    o_n = i_tile * BLOCK_N + tl.arange(0, BLOCK_N)
                    b_none = tl.full([BLOCK_N, BLOCK_Q], float("-inf"), tl.float32)
                    tl.store(p_row + o_n[:, None], b_none, mask=(o_n[:, None] < width) & m_member[None, :])
