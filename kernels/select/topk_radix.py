"""Exact top-k with the scores of a row in registers: the k-th score is found by counting, then one compaction."""

from dataclasses import dataclass
from typing import Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.overlap import launch_options, wait_for_inputs
from kernels.select.knobs import check_powers_of_two, check_range
from kernels.select.threshold import NO_ENTRY, bound, search

LEAST_BLOCK = 128  # four scores for each thread of a warp
LARGEST_BLOCK = 32768  # scores that the threads of one program can hold
MOST_WARPS = 32
ENOUGH_WARPS = 16  # that are chosen; 32 take 10 % longer for 64 rows of 32,768 scores
MOST_LEFT = 1024  # scores that one program can compare each with each
LONG = 8192  # scores; longer rows take 16 warps or several chunks


class Model(Protocol):
    topk: int


@dataclass(frozen=True)
class TopK:
    """Rows wider than `block` are cut into chunks, and the best topk of each chunk compete in a further launch.

    A row with visible <= topk is filled in ascending order without a look at its scores. `finish`: so many scores may
    be left when the search ends, to be compared with each other; None: more where rows are longer than `LONG`. `block`
    and `warps`, where None, suit `many_rows` and more, which fill the machine, or fewer. `overlap`: kernels.overlap.
    """

    many_rows: int = 512
    least_block: int = 1024
    block: int | None = None
    warps: int | None = None
    finish: int | None = None
    overlap: bool = False

    def __post_init__(self) -> None:
        check_powers_of_two(least_block=self.least_block, block=self.block, warps=self.warps, finish=self.finish)
        check_range(LEAST_BLOCK, LARGEST_BLOCK, least_block=self.least_block, block=self.block)
        check_range(1, MOST_WARPS, warps=self.warps)
        check_range(1, MOST_LEFT, finish=self.finish)

    def refuses(self, model: Model) -> str | None:
        if 2 * model.topk > LARGEST_BLOCK:
            return f"topk {model.topk}: this top-k takes at most {LARGEST_BLOCK // 2}"
        return None

    def __call__(self, scores: Tensor, visible: Tensor, topk: int) -> Tensor:
        rows, width = scores.shape
        finish = self.finish or (64 if width > LONG else 32)
        largest = max(self.block or self._block(rows, width), triton.next_power_of_2(2 * topk))
        chosen, size = visible, width
        for level in range(width.bit_length() + 1):
            block = min(max(triton.next_power_of_2(size), self.least_block), largest)
            chunks = max(triton.cdiv(size, block), 1)
            warps = self._warps(rows * chunks, block)
            candidates, chosen = chosen, scores.new_empty((rows, chunks * topk), dtype=torch.int32)
            _choose[(rows, chunks)](
                scores,
                visible,
                candidates,
                chosen,
                scores.new_empty((rows, chunks, finish), dtype=torch.int32),
                scores.stride(0),
                0 if level == 0 else size,
                width,
                topk,
                FIRST=level == 0,
                VECTOR=4 if (scores.stride(0) if level == 0 else size) % 16 == 0 else 1,
                BLOCK=block,
                THREADS=32 * warps,
                FINISH=finish,
                num_warps=warps,
                **launch_options(self.overlap, rows * chunks),
            )
            size = chunks * topk
            if chunks == 1:
                break
        return chosen

    def _block(self, rows: int, width: int) -> int:
        if rows >= self.many_rows:
            return 8192
        return LARGEST_BLOCK if width <= LARGEST_BLOCK else 16384

    def _warps(self, programs: int, block: int) -> int:
        scores_each, least = (2048, 2) if programs >= self.many_rows else (1024, 4)
        chosen = self.warps or min(max(block // scores_each, least), ENOUGH_WARPS)
        return min(chosen, block // LEAST_BLOCK)


@triton.jit(do_not_specialize=["width", "topk"])
def _choose(
    p_scores,
    p_visible,
    p_candidates,
    p_chosen,
    p_between,
    stride,
    size,
    width,
    topk,
    FIRST: tl.constexpr,
    VECTOR: tl.constexpr,
    BLOCK: tl.constexpr,
    THREADS: tl.constexpr,
    FINISH: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    wait_for_inputs(OVERLAP)
    i_row, i_chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i_program = i_row * tl.num_programs(1) + i_chunk
    first = i_chunk * BLOCK
    p_scores += i_row * stride
    p_candidates += i_row * size
    p_chosen += i_program * topk
    p_between += i_program * FINISH
    o = tl.arange(0, BLOCK)
    if FIRST:
        count = tl.minimum(tl.load(p_visible + i_row), width) - first
        count = tl.maximum(tl.minimum(count, BLOCK), 0)
    else:
        b_known = tl.load(p_candidates + first + o, mask=first + o < size, other=-1) >= 0
        count = tl.sum(b_known.to(tl.int32), 0)
    k = tl.minimum(count, topk)

    if count == k:
        for start in range(0, topk, THREADS):
            o_out = start + tl.arange(0, THREADS)
            b_entry = _entry(p_candidates, first, o_out, o_out < count, FIRST)
            tl.store(p_chosen + o_out, tl.where(o_out < count, b_entry, -1), mask=o_out < topk)
    else:
        b_score = _read(p_scores, p_candidates, first, o, count, FIRST, VECTOR)
        low, high, above, between = search(b_score, count, k, FINISH)
        p_rest = p_between
        b_above = _words(b_score >= high, THREADS)
        b_rest = _words(b_score >= low, THREADS) & ~b_above
        if low == float("-inf"):
            b_rest = b_rest & _words(o < count, THREADS)
        if between > FINISH:
            b_entry = tl.where(b_score == low, _entry(p_candidates, first, o, o < count, FIRST), NO_ENTRY)
            b_rest = _words(b_entry < bound(b_entry, k - above), THREADS)
            p_rest = p_chosen + above
        _write(p_chosen, b_above, p_rest, b_rest, p_candidates, first, FIRST)
        if (between > 0) & (between <= FINISH):
            tl.debug_barrier()
            _rank(p_scores, p_between, p_chosen + above, between, k - above, FINISH)


@triton.jit
def _entry(p_candidates, first, o, m, FIRST: tl.constexpr):
    """Entries of a chunk at o, NO_ENTRY outside of m."""
    if FIRST:
        return tl.where(m, first + o, NO_ENTRY)
    else:
        return tl.load(p_candidates + first + o, mask=m, other=NO_ENTRY)


@triton.jit
def _read(p_scores, p_candidates, first, o, count, FIRST: tl.constexpr, VECTOR: tl.constexpr):
    """Scores of a chunk at o: NaN and what lies beyond `count` as -inf, -0 as 0."""
    m = o < count
    m_vector = o < tl.cdiv(count, VECTOR) * VECTOR
    if FIRST:
        b_score = tl.load(p_scores + first + o, mask=m_vector, other=0.0)
    else:
        b_score = tl.load(p_scores + tl.load(p_candidates + first + o, mask=m_vector, other=0), mask=m, other=0.0)
    return tl.where(m & (b_score == b_score), b_score + 0.0, float("-inf"))


@triton.jit
def _words(m, THREADS: tl.constexpr):
    """Mask [BLOCK] -> int32 [W, THREADS]: bit b of word w of thread t is m[4 * ((8 w + b // 4) * THREADS + t) + b % 4].

    So loads of 16 bytes lie. Sixteen bits at a time are summed in float, whose units are idle while others compare.
    """
    TURNS: tl.constexpr = m.shape[0] // (4 * THREADS)
    HALF: tl.constexpr = min(TURNS, 4)
    o_bit = 4 * tl.arange(0, HALF)[None, :, None, None] + tl.arange(0, 4)[None, None, None, :]
    b_bits = tl.reshape(m, [TURNS // HALF, HALF, THREADS, 4]).to(tl.float32) * (1 << o_bit).to(tl.float32)
    b_words = tl.sum(tl.sum(b_bits, 3), 1).to(tl.int32)
    if TURNS > 4:
        b_words = tl.reshape(b_words, [TURNS // 8, 2, THREADS]) << (16 * tl.arange(0, 2)[None, :, None])
        b_words = tl.sum(b_words, 1)
    return b_words


@triton.jit
def _write(p_first, b_first, p_second, b_second, p_candidates, first, FIRST: tl.constexpr):
    """Write the entries of the bits in b_first [W, THREADS] to p_first, of those in b_second to p_second."""
    WORDS: tl.constexpr = b_first.shape[0]
    THREADS: tl.constexpr = b_first.shape[1]
    b_counts = _ones(b_first) + (_ones(b_second) << 16)
    b_thread = tl.sum(b_counts, 0)
    b_before = (tl.cumsum(b_thread, 0) - b_thread)[None, :] + tl.cumsum(b_counts, 0) - b_counts
    b_turn = 8 * tl.arange(0, WORDS)[:, None] * THREADS + tl.arange(0, THREADS)[None, :]
    p_first += b_before & 0xFFFF
    p_second += (b_before >> 16) - (b_counts & 0xFFFF)
    for i in range(tl.max(tl.max((b_counts & 0xFFFF) + (b_counts >> 16), 0), 0)):
        m_first = b_first != 0
        b_word = tl.where(m_first, b_first, b_second)
        b_lowest = b_word & -b_word
        b_bit = _ones(b_lowest - 1)
        o = 4 * (b_turn + (b_bit >> 2) * THREADS) + (b_bit & 3)
        b_entry = _entry(p_candidates, first, o, b_word != 0, FIRST)
        tl.store(tl.where(m_first, p_first, p_second) + i, b_entry, mask=b_word != 0)
        b_word ^= b_lowest
        b_first = tl.where(m_first, b_word, 0)
        b_second = tl.where(m_first, b_second, b_word)


@triton.jit
def _ones(b):
    """How many bits of each word are set."""
    b = b - ((b >> 1) & 0x55555555)
    b = (b & 0x33333333) + ((b >> 2) & 0x33333333)
    b = (b + (b >> 4)) & 0x0F0F0F0F
    return ((b * 0x01010101) >> 24) & 0xFF


@triton.jit
def _rank(p_scores, p_entries, p_chosen, count, k, SIZE: tl.constexpr):
    """Write the k best of `count` entries, each at its rank."""
    o = tl.arange(0, SIZE)
    b_entry = tl.load(p_entries + o, mask=o < count, other=NO_ENTRY)
    b_score = _read(p_scores, p_entries, 0, o, count, False, 1)
    b_rival, b_rival_entry = b_score[None, :], b_entry[None, :]  # [1, SIZE]
    b_better = (b_rival > b_score[:, None]) | ((b_rival == b_score[:, None]) & (b_rival_entry < b_entry[:, None]))
    b_rank = tl.sum(b_better.to(tl.int32), 1)
    tl.store(p_chosen + b_rank, b_entry, mask=(o < count) & (b_rank < k))
