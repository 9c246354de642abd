"""8, 16 or 32 heads a program on Hopper's wgmma: keys fill its rows, so a rank of eight pads no head to 64.

Straight from an fp8_ds_mla or bf16 cache. Two warp groups bring rows into shared memory and dequantise them; a third
scores them, [keys, heads], and multiplies the values, [channels, heads]. Programs stay for several tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import triton
import triton.experimental.gluon.language as gl
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.hopper import async_copy, fence_async_shared, mbarrier, warpgroup_mma

from kernels.attend.parts.bring import bring, share_of
from kernels.attend.parts.knobs import SPLITS, check
from kernels.attend.parts.launch import (
    LOG2E,
    UNALIGNED,
    UNSPECIALISED,
    launch,
    let_next_start,
    refuse_shape,
    tiles_of,
)
from kernels.contracts import Keys

NONE: gl.constexpr = gl.constexpr(float("-inf"))
BLOCK_N: gl.constexpr = gl.constexpr(64)
COMBINE_TILES = 1.5  # what combining takes, in tiles of keys


@gluon.jit
def _compute(
    items,
    deal,
    p_q,
    p_out,
    p_lse,
    p_sink,
    T,
    scale,
    stages,
    signals,
    SOURCES: gl.constexpr,
    SINK: gl.constexpr,
    SPLIT: gl.constexpr,
):
    queries, keys, bars, weights = stages
    brought, used = signals
    H = deal[4]
    STAGES: gl.constexpr = keys.shape[0]
    BLOCK_H: gl.constexpr = queries.shape[0]
    D: gl.constexpr = queries.shape[1]
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BLOCK_H, 16])
    HEAD: gl.constexpr = gl.SliceLayout(0, SCORES)
    QUERY: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [gl.num_warps(), 1], [1, 0])
    o_query = gl.arange(0, BLOCK_H, layout=gl.SliceLayout(1, QUERY))
    o_channel = gl.arange(0, D, layout=gl.SliceLayout(0, QUERY))
    o_head = gl.arange(0, BLOCK_H, layout=HEAD)
    o_d = gl.arange(0, D, layout=gl.SliceLayout(1, SCORES))
    nothing = gl.zeros([BLOCK_N, BLOCK_H], gl.float32, layout=SCORES)
    n = 0
    for i_item in range(gl.program_id(0), items, gl.num_programs(0)):
        place, _, start, stop = share_of(i_item, deal, BLOCK_H, BLOCK_N, SOURCES)
        i_t, i_h, i_s = place
        p_query = p_q + (i_t * H + i_h + o_query)[:, None] * D + o_channel[None, :]
        async_copy.async_copy_global_to_shared(queries, p_query, mask=(i_h + o_query < H)[:, None])
        async_copy.commit_group()
        async_copy.wait_group(0)
        b_out = gl.zeros([D, BLOCK_H], gl.float32, layout=SCORES)
        b_top = gl.full([BLOCK_H], NONE, gl.float32, layout=HEAD)
        b_totals = nothing
        for _ in range(start, stop):
            stage = n % STAGES
            tile = keys.index(stage)
            mbarrier.wait(brought.index(stage), n // STAGES % 2)
            fence_async_shared()
            # [BLOCK_N, BLOCK_H]
            b_s = warpgroup_mma(tile, queries.permute((1, 0)), nothing, use_acc=False)
            b_s = b_s * scale + bars.index(stage).load(gl.SliceLayout(1, SCORES))[:, None]
            b_highest = gl.maximum(b_top, gl.max(b_s, axis=0))
            b_base = gl.where(b_highest == NONE, 0.0, b_highest)
            b_p = gl.exp2(b_s - b_base[None, :])
            b_shrink = gl.exp2(b_top - b_base)
            b_top = b_highest
            b_totals = b_totals * b_shrink[None, :] + b_p
            weights.store(gl.permute(b_p.to(gl.bfloat16), (1, 0)))
            fence_async_shared()
            # [D, BLOCK_H]
            b_out = b_out * b_shrink[None, :]
            b_out = warpgroup_mma(tile.permute((1, 0)), weights.permute((1, 0)), b_out)
            mbarrier.arrive(used.index(stage))
            n += 1

        b_total = gl.sum(b_totals, axis=0)
        o_h = i_h + o_head
        m_h = o_h < H
        if SPLIT:
            o_part = (i_s.to(gl.int64) * T + i_t) * H + o_h
            gl.store(p_lse + o_part, gl.where(b_total > 0, b_top + gl.log2(b_total), NONE), mask=m_h)
            m_h = m_h & (stop > start)
        else:
            o_part = i_t * H + o_h
            if SINK:
                b_sink = gl.load(p_sink + o_h, mask=m_h, other=0.0) * LOG2E
                b_total += gl.exp2(b_sink - gl.where(b_top == NONE, 0.0, b_top))
        b_out = b_out * (1.0 / gl.where(b_total == 0, 1.0, b_total))[None, :]
        gl.store(p_out + o_part[None, :] * D + o_d[:, None], b_out.to(p_out.dtype.element_ty), mask=m_h[None, :])


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
    BLOCK_H: gl.constexpr,
    STAGES: gl.constexpr,
    BRING_WARPS: gl.constexpr,
    BRING_REGISTERS: gl.constexpr,
):
    OPERAND: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    VECTOR: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    queries = gl.allocate_shared_memory(gl.bfloat16, [BLOCK_H, D], OPERAND)
    keys = gl.allocate_shared_memory(gl.bfloat16, [STAGES, BLOCK_N, D], OPERAND)
    weights = gl.allocate_shared_memory(gl.bfloat16, [BLOCK_H, BLOCK_N], OPERAND)
    slots = gl.allocate_shared_memory(gl.int32, [2, BLOCK_N], VECTOR)
    scales = gl.allocate_shared_memory(gl.int64, [2, BLOCK_N], VECTOR)
    bars = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK_N], VECTOR)
    brought = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    used = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(brought.index(i), count=1)
        mbarrier.init(used.index(i), count=1)
    if SPLIT:
        let_next_start()
    caches = (p_cache0, p_cache1)
    p_slots = (p_slots0, p_slots1)
    strides = (stride_slots0, stride_slots1)
    deal = (p_lengths0, p_lengths1, width0, width1, H, splits)
    stages = (queries, keys, bars, weights)
    rows = (keys, slots, scales, bars, brought, used)
    gl.warp_specialize(
        [
            (
                _compute,
                (items, deal, p_q, p_out, p_lse, p_sink, T, scale, stages, (brought, used), SOURCES, SINK, SPLIT),
            ),
            (
                bring,
                (items, deal, caches, p_slots, strides, rows, BLOCK_H, SOURCES, FP8, PAGE0, PAGE1, STRIDE0, STRIDE1),
            ),
        ],
        [BRING_WARPS],
        [BRING_REGISTERS],
    )


@dataclass(frozen=True)
class Attend:
    device: ClassVar[str] = "cuda"
    splits: int | None = None  # programs that share a token's keys; None: chosen from tokens, heads and widths
    heads: int | None = None  # heads a program: 8, 16 or 32; None: chosen
    stages: int = 3  # tiles of keys in shared memory; 2 at most for 32 heads
    warps: int | None = None  # that bring rows: 4 or 8; None: 4 where a program has 8 heads, else 8
    early: bool = True  # the combining launch starts while this one runs

    def __post_init__(self) -> None:
        check("splits", self.splits, SPLITS)
        check("heads", self.heads, (8, 16, 32))
        check("stages", self.stages, (1, 2, 3))
        check("warps", self.warps, (4, 8))

    def refuses(self, model: Any) -> str | None:
        return refuse_shape(model)

    def __call__(self, q: Tensor, keys: Sequence[Keys], sink: Tensor | None, scale: float) -> Tensor:
        """q is bf16, the caches are one or two, both fp8_ds_mla or both plain bf16."""
        block = self.heads or _block(q.shape[1], q.shape[0] * tiles_of(keys), q.device)
        constants = {
            "BLOCK_H": block,
            "STAGES": min(self.stages, 2) if block == 32 else self.stages,
            "BRING_WARPS": self.warps or (4 if block == 8 else 8),
            "BRING_REGISTERS": 128,
        }
        return launch(
            _attend, q, keys, sink, scale, block, self.splits, COMBINE_TILES, self.early, num_warps=4, **constants
        )


def _block(heads: int, tiles: int, device: torch.device) -> int:
    """Heads a program: 32, but half and half again while one tile a program would not fill the GPU."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    block = 32
    while block > 8 and (triton.cdiv(heads, block) * tiles <= processors or heads <= block // 2):
        block //= 2
    return block
