"""Sparse attention straight from any cache, in plain Triton: programs share the keys of a token, then combine.

Any number of sources in one softmax, fp8_ds_mla and plain rows side by side. A program takes some heads of one token
and a run of key tiles, the first source's first. A row is attended in two parts: without position, and rotated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.attend.parts.combine import combine, empty_parts
from kernels.attend.parts.knobs import SPLITS, check
from kernels.attend.parts.launch import LOG2E
from kernels.attend.parts.splits import choose_splits
from kernels.contracts import Keys
from kernels.fetch import fetch
from kernels.layouts import FP8DSMLACache

NONE = tl.constexpr(float("-inf"))


@triton.jit
def _length(p_length, width):
    return tl.minimum(tl.maximum(tl.load(p_length), 0), tl.cast(width, tl.int32))


@triton.jit(do_not_specialize=("T", "H", "splits"))
def _attend(
    p_q,
    p_out,
    p_lse,
    p_sink,
    p_caches,
    p_slots,
    p_lengths,
    widths,
    strides,
    scale,
    T,
    H,
    splits,
    FP8: tl.constexpr,
    PAGES: tl.constexpr,
    STRIDES: tl.constexpr,
    A: tl.constexpr,
    B: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK_B: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SINK: tl.constexpr,
    SPLIT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    blocks = tl.cdiv(H, BLOCK_H)
    o_h = tl.program_id(0) % blocks * BLOCK_H + tl.arange(0, BLOCK_H)
    i_s = tl.program_id(0) // blocks % splits
    i_t = (tl.program_id(0) // blocks // splits).to(tl.int64)
    m_h = o_h < H
    o_n = tl.arange(0, BLOCK_N)
    o_a = tl.arange(0, BLOCK_A)
    o_b = tl.arange(0, BLOCK_B)
    dtype: tl.constexpr = p_q.dtype.element_ty

    tiles = 0
    for s in tl.static_range(len(p_caches)):
        tiles += tl.cdiv(_length(p_lengths[s] + i_t, widths[s]), BLOCK_N)
    share = tl.cdiv(tiles, splits)
    start = tl.minimum(i_s * share, tiles)
    stop = tl.minimum(start + share, tiles)

    # [BLOCK_H, BLOCK_A], [BLOCK_H, BLOCK_B]
    p_head = p_q + (i_t * H + o_h)[:, None] * (A + B)
    b_qa = tl.load(p_head + o_a[None, :], mask=m_h[:, None] & (o_a < A)[None, :], other=0.0)
    b_qb = tl.load(p_head + (A + o_b)[None, :], mask=m_h[:, None] & (o_b < B)[None, :], other=0.0)
    b_oa = tl.zeros((BLOCK_H, BLOCK_A), tl.float32)
    b_ob = tl.zeros((BLOCK_H, BLOCK_B), tl.float32)
    b_top = tl.full((BLOCK_H,), NONE, tl.float32)
    b_total = tl.zeros((BLOCK_H,), tl.float32)
    before = 0
    for s in tl.static_range(len(p_caches)):
        length = _length(p_lengths[s] + i_t, widths[s])
        own_tiles = tl.cdiv(length, BLOCK_N)
        p_row = p_slots[s] + i_t * tl.cast(strides[s], tl.int64)
        for i in range(tl.maximum(start - before, 0), tl.minimum(stop - before, own_tiles)):
            o_column = i * BLOCK_N + o_n
            b_slots = tl.load(p_row + o_column, mask=o_column < length, other=-1)
            b_ka, b_kb = fetch(p_caches[s], b_slots, FP8[s], PAGES[s], STRIDES[s], A, B, BLOCK_A, BLOCK_B, dtype)
            # [BLOCK_H, BLOCK_N]
            b_s = tl.dot(b_qa, tl.trans(b_ka), input_precision=PRECISION)
            if B > 0:
                b_s = tl.dot(b_qb, tl.trans(b_kb), b_s, input_precision=PRECISION)
            b_s = tl.where((b_slots >= 0)[None, :], b_s * scale, NONE)
            b_highest = tl.maximum(b_top, tl.max(b_s, 1))
            b_base = tl.where(b_highest == NONE, 0.0, b_highest)
            b_p = tl.exp2(b_s - b_base[:, None])
            b_shrink = tl.exp2(b_top - b_base)
            b_total = b_total * b_shrink + tl.sum(b_p, 1)
            b_top = b_highest
            b_oa = tl.dot(b_p.to(dtype), b_ka, b_oa * b_shrink[:, None], input_precision=PRECISION)
            if B > 0:
                b_ob = tl.dot(b_p.to(dtype), b_kb, b_ob * b_shrink[:, None], input_precision=PRECISION)
        before += own_tiles

    if SPLIT:
        o_part = (i_s.to(tl.int64) * T + i_t) * H + o_h
        tl.store(p_lse + o_part, tl.where(b_total > 0, b_top + tl.log2(b_total), NONE), mask=m_h)
        m_h = m_h & (stop > start)
    else:
        o_part = i_t * H + o_h
        if SINK:
            b_sink = tl.load(p_sink + o_h, mask=m_h, other=0.0) * LOG2E
            b_total += tl.exp2(b_sink - tl.where(b_top == NONE, 0.0, b_top))
    b_share = (1.0 / tl.where(b_total == 0, 1.0, b_total))[:, None]
    p_head = p_out + o_part[:, None] * (A + B)
    tl.store(p_head + o_a[None, :], (b_oa * b_share).to(p_out.dtype.element_ty), mask=m_h[:, None] & (o_a < A)[None, :])
    m_b = m_h[:, None] & (o_b < B)[None, :]
    tl.store(p_head + (A + o_b)[None, :], (b_ob * b_share).to(p_out.dtype.element_ty), mask=m_b)


@dataclass(frozen=True)
class Attend:
    """`resident`: programs that a multiprocessor runs at once, as the choice of splits assumes it."""

    device: ClassVar[str] = "cuda"
    splits: int | None = None  # programs that share a token's keys; None: chosen from tokens, heads and widths
    heads: int = 16  # heads a program, at most
    keys: int = 32  # keys a tile
    warps: int = 4
    stages: int = 2
    resident: int = 2

    def __post_init__(self) -> None:
        check("splits", self.splits, SPLITS)
        check("heads", self.heads, (16, 32, 64, 128))
        check("keys", self.keys, (16, 32, 64, 128))
        check("warps", self.warps, (1, 2, 4, 8, 16))

    def __call__(self, q: Tensor, keys: Sequence[Keys], sink: Tensor | None, scale: float) -> Tensor:
        q, out = q.contiguous(), torch.empty_like(q)
        tokens, heads, width = q.shape
        if not tokens:
            return out
        block = min(self.heads, triton.next_power_of_2(max(heads, 16)))
        blocks = -(-heads // block)
        splits = self.splits or self._splits(tokens * blocks, keys, q)
        parts, lse = empty_parts(splits, q) if splits > 1 else (out, out)
        caches = [source.cache for source in keys]
        scaled = [cache for cache in caches if isinstance(cache, FP8DSMLACache)]
        rope = scaled[0].rope if scaled else 0
        _attend[(tokens * blocks * splits,)](
            q,
            parts,
            lse,
            sink,
            tuple(cache.data for cache in caches),
            tuple(source.slots for source in keys),
            tuple(source.lengths for source in keys),
            # floats: of the integers in a tuple, every kind would be compiled anew
            tuple(float(source.slots.shape[1]) for source in keys),
            tuple(float(source.slots.stride(0)) for source in keys),
            scale * LOG2E.value,
            tokens,
            heads,
            splits,
            FP8=tuple(isinstance(cache, FP8DSMLACache) for cache in caches),
            PAGES=tuple(cache.page_size for cache in caches),
            STRIDES=tuple(cache.data.stride(0) for cache in caches),
            A=width - rope,
            B=rope,
            BLOCK_A=max(triton.next_power_of_2(width - rope), 16),
            BLOCK_B=max(triton.next_power_of_2(rope), 16),
            BLOCK_H=block,
            BLOCK_N=self.keys,
            SINK=sink is not None,
            SPLIT=splits > 1,
            PRECISION="ieee" if q.dtype == torch.float32 else "tf32",
            num_warps=self.warps,
            num_stages=self.stages,
        )
        if splits > 1:
            combine(parts, lse, sink, out)
        return out

    def _splits(self, programs: int, keys: Sequence[Keys], q: Tensor) -> int:
        tiles = sum(-(-source.slots.shape[1] // self.keys) for source in keys)
        processors = torch.cuda.get_device_properties(q.device).multi_processor_count if q.is_cuda else 1
        return choose_splits(programs, tiles, processors * self.resident, start=3.0, combine=3.0)
