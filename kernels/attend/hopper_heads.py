"""64 heads a program on Hopper's wgmma: heads fill its rows. Straight from an fp8_ds_mla or bf16 cache.

Three kinds of warps pass tiles of 64 keys to each other: one warp group brings rows into shared memory and dequantises
them, one scores them and takes the softmax, two multiply the values, half of the channels each. Programs stay for
several tokens, so that the next one begins while the last one is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import triton.experimental.gluon.language as gl
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.hopper import (
    async_copy,
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernels.attend.parts.bring import bring, share_of
from kernels.attend.parts.knobs import SPLITS, check
from kernels.attend.parts.launch import LOG2E, UNALIGNED, UNSPECIALISED, launch, let_next_start, refuse_shape
from kernels.attend.parts.write import value_layout, write
from kernels.contracts import Keys

NONE: gl.constexpr = gl.constexpr(float("-inf"))
BLOCK_H: gl.constexpr = gl.constexpr(64)
BLOCK_N: gl.constexpr = gl.constexpr(64)
SCORE_REGISTERS: gl.constexpr = gl.constexpr(80)
BRING_REGISTERS: gl.constexpr = gl.constexpr(112)
MULTIPLY_WARPS = 8
COMBINE_TILES = 6.0  # what combining takes, in tiles of keys


@gluon.jit
def _score(items, deal, p_q, scale, stages, signals, SOURCES: gl.constexpr):
    queries, keys, bars, weights, shrinks, sums, brought = stages
    scored, used, closed, taken = signals
    H = deal[4]
    D: gl.constexpr = queries.shape[1]
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BLOCK_N, 16])
    HEAD: gl.constexpr = gl.SliceLayout(1, SCORES)
    QUERY: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [gl.num_warps(), 1], [1, 0])
    o_h = gl.arange(0, BLOCK_H, layout=gl.SliceLayout(1, QUERY))
    o_d = gl.arange(0, D, layout=gl.SliceLayout(0, QUERY))
    nothing = gl.zeros([BLOCK_H, BLOCK_N], gl.float32, layout=SCORES)
    n = 0
    for i_item in range(gl.program_id(0), items, gl.num_programs(0)):
        place, _, start, stop = share_of(i_item, deal, BLOCK_H, BLOCK_N, SOURCES)
        o_head = place[1] + o_h
        p_query = (p_q + place[0] * H * D + o_head * D)[:, None] + o_d[None, :]
        async_copy.async_copy_global_to_shared(queries, p_query, mask=(o_head < H)[:, None])
        async_copy.commit_group()
        async_copy.wait_group(0)
        fence_async_shared()
        b_top = gl.full([BLOCK_H], NONE, gl.float32, layout=HEAD)
        b_total = gl.zeros([BLOCK_H], gl.float32, layout=HEAD)
        for _ in range(start, stop):
            slot = n % 2
            phase = n // 2 % 2
            mbarrier.wait(brought.index(slot), phase)
            # [BLOCK_H, BLOCK_N]
            b_s = warpgroup_mma(queries, keys.index(slot).permute((1, 0)), nothing, use_acc=False)
            b_s = b_s * scale + bars.index(slot).load(gl.SliceLayout(0, SCORES))[None, :]
            b_highest = gl.maximum(b_top, gl.max(b_s, axis=1))
            b_base = gl.where(b_highest == NONE, 0.0, b_highest)
            b_p = gl.exp2(b_s - b_base[:, None])
            b_shrink = gl.exp2(b_top - b_base)
            b_top = b_highest
            mbarrier.wait(used.index(slot), phase ^ 1)
            weights.index(slot).store(b_p.to(gl.bfloat16))
            shrinks.index(slot).store(b_shrink)
            fence_async_shared()
            mbarrier.arrive(scored.index(slot))
            b_total = b_total * b_shrink + gl.sum(b_p, axis=1)
            n += 1
        mbarrier.wait(taken, i_item // gl.num_programs(0) % 2 ^ 1)
        sums.index(0).store(b_top)
        sums.index(1).store(b_total)
        mbarrier.arrive(closed)


@gluon.jit
def _multiply(
    items,
    deal,
    p_out,
    p_lse,
    p_sink,
    T,
    stages,
    signals,
    SOURCES: gl.constexpr,
    SINK: gl.constexpr,
    SPLIT: gl.constexpr,
):
    keys, weights, shrinks, sums = stages
    scored, used, closed, taken = signals
    H = deal[4]
    D: gl.constexpr = keys.shape[2]
    VALUES: gl.constexpr = value_layout(gl.num_warps(), D)
    HEAD: gl.constexpr = gl.SliceLayout(1, VALUES)
    o_h = gl.arange(0, BLOCK_H, layout=HEAD)
    n = 0
    for i_item in range(gl.program_id(0), items, gl.num_programs(0)):
        place, _, start, stop = share_of(i_item, deal, BLOCK_H, BLOCK_N, SOURCES)
        i_t, i_h, i_s = place
        b_out = gl.zeros([BLOCK_H, D], gl.float32, layout=VALUES)
        for _ in range(start, stop):
            slot = n % 2
            mbarrier.wait(scored.index(slot), n // 2 % 2)
            b_out = b_out * shrinks.index(slot).load(HEAD)[:, None]
            b_out = warpgroup_mma(weights.index(slot), keys.index(slot), b_out, is_async=True)
            b_out = warpgroup_mma_wait(0, deps=[b_out])
            mbarrier.arrive(used.index(slot))
            n += 1
        mbarrier.wait(closed, i_item // gl.num_programs(0) % 2)
        b_top = sums.index(0).load(HEAD)
        b_total = sums.index(1).load(HEAD)
        mbarrier.arrive(taken)
        row = i_t * H + i_h
        heads = H - i_h
        if SPLIT:
            row += i_s.to(gl.int64) * T * H
            gl.store(p_lse + row + o_h, gl.where(b_total > 0, b_top + gl.log2(b_total), NONE), mask=o_h < heads)
            heads = gl.where(stop > start, heads, 0)
        elif SINK:
            b_sink = gl.load(p_sink + i_h + o_h, mask=o_h < heads, other=0.0) * LOG2E
            b_total += gl.exp2(b_sink - gl.where(b_top == NONE, 0.0, b_top))
        b_out = b_out * (1.0 / gl.where(b_total == 0, 1.0, b_total))[:, None]
        write(p_out + row * D, heads, b_out)


@gluon.jit(do_not_specialize=UNSPECIALISED, do_not_specialize_on_alignment=UNALIGNED)
def _attend(
    p_q,
    p_out,
    p_lse,
    p_sink,
    items,
    p_cache0,
    p_cache1,
    p_slots0,
    p_slots1,
    p_lengths0,
    p_lengths1,
    scale,
    T,
    H,
    splits,
    width0,
    width1,
    stride_slots0,
    stride_slots1,
    D: gl.constexpr,
    FP8: gl.constexpr,
    PAGE0: gl.constexpr,
    PAGE1: gl.constexpr,
    STRIDE0: gl.constexpr,
    STRIDE1: gl.constexpr,
    SOURCES: gl.constexpr,
    SINK: gl.constexpr,
    SPLIT: gl.constexpr,
):
    OPERAND: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    VECTOR: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    queries = gl.allocate_shared_memory(gl.bfloat16, [BLOCK_H, D], OPERAND)
    keys = gl.allocate_shared_memory(gl.bfloat16, [2, BLOCK_N, D], OPERAND)
    weights = gl.allocate_shared_memory(gl.bfloat16, [2, BLOCK_H, BLOCK_N], OPERAND)
    slots = gl.allocate_shared_memory(gl.int32, [2, BLOCK_N], VECTOR)
    scales = gl.allocate_shared_memory(gl.int64, [2, BLOCK_N], VECTOR)
    bars = gl.allocate_shared_memory(gl.float32, [2, BLOCK_N], VECTOR)
    shrinks = gl.allocate_shared_memory(gl.float32, [2, BLOCK_H], VECTOR)
    sums = gl.allocate_shared_memory(gl.float32, [2, BLOCK_H], VECTOR)
    brought = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    scored = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    used = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    closed = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    taken = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(brought.index(i), count=1)
        mbarrier.init(scored.index(i), count=1)
        mbarrier.init(used.index(i), count=1)
    mbarrier.init(closed, count=1)
    mbarrier.init(taken, count=1)
    if SPLIT:
        let_next_start()
    caches = (p_cache0, p_cache1)
    p_slots = (p_slots0, p_slots1)
    strides = (stride_slots0, stride_slots1)
    deal = (p_lengths0, p_lengths1, width0, width1, H, splits)
    bring_stages = (keys, slots, scales, bars, brought, used)
    score_stages = (queries, keys, bars, weights, shrinks, sums, brought)
    multiply_stages = (keys, weights, shrinks, sums)
    signals = (scored, used, closed, taken)
    gl.warp_specialize(
        [
            (_multiply, (items, deal, p_out, p_lse, p_sink, T, multiply_stages, signals, SOURCES, SINK, SPLIT)),
            (_score, (items, deal, p_q, scale, score_stages, signals, SOURCES)),
            (
                bring,
                (
                    items,
                    deal,
                    caches,
                    p_slots,
                    strides,
                    bring_stages,
                    BLOCK_H,
                    SOURCES,
                    FP8,
                    PAGE0,
                    PAGE1,
                    STRIDE0,
                    STRIDE1,
                ),
            ),
        ],
        [4, 4],
        [SCORE_REGISTERS, BRING_REGISTERS],
    )


@dataclass(frozen=True)
class Attend:
    device: ClassVar[str] = "cuda"
    splits: int | None = None  # programs that share a token's keys; None: chosen from tokens, heads and widths
    early: bool = True  # the combining launch starts while this one runs

    def __post_init__(self) -> None:
        check("splits", self.splits, SPLITS)

    def refuses(self, model: Any) -> str | None:
        return refuse_shape(model)

    def __call__(self, q: Tensor, keys: Sequence[Keys], sink: Tensor | None, scale: float) -> Tensor:
        """q is bf16, the caches are one or two, both fp8_ds_mla or both plain bf16."""
        block = BLOCK_H.value
        return launch(
            _attend, q, keys, sink, scale, block, self.splits, COMBINE_TILES, self.early, num_warps=MULTIPLY_WARPS
        )
