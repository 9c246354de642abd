"""The warps that bring rows into shared memory, in Gluon: tiles of keys, as bf16, in the order of the items.

A program works through items (some heads, a token, a split of its keys); tiles are counted over all of them. Shared
memory holds STAGES tiles: `brought` tells the readers that one is there, `used` that it may be overwritten.
"""

import triton.experimental.gluon.language as gl
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.hopper import async_copy, fence_async_shared, mbarrier

from kernels.attend.parts import fp8_rows
from kernels.attend.parts.rows import locate

NONE: gl.constexpr = gl.constexpr(float("-inf"))


@gluon.jit
def share_of(i_item, deal, BLOCK_H: gl.constexpr, BLOCK_N: gl.constexpr, SOURCES: gl.constexpr):
    """(token, first head, split) of an item; (both lengths, tiles of source 0); its tiles start to stop."""
    p_lengths0, p_lengths1, width0, width1, H, splits = deal
    blocks = (H + BLOCK_H - 1) // BLOCK_H
    i_h = i_item % blocks * BLOCK_H
    i_s = i_item // blocks % splits
    i_t = (i_item // blocks // splits).to(gl.int64)
    length0 = gl.minimum(gl.maximum(gl.load(p_lengths0 + i_t), 0), width0)
    length1 = 0
    if SOURCES == 2:
        length1 = gl.minimum(gl.maximum(gl.load(p_lengths1 + i_t), 0), width1)
    tiles0 = (length0 + BLOCK_N - 1) // BLOCK_N
    tiles = tiles0 + (length1 + BLOCK_N - 1) // BLOCK_N
    run = (tiles + splits - 1) // splits
    start = gl.minimum(i_s * run, tiles)
    return (i_t, i_h, i_s), (length0, length1, tiles0), start, gl.minimum(start + run, tiles)


@gluon.jit
def _slots(i_tile, lengths, p_slots0, p_slots1, o_row, BLOCK_N: gl.constexpr):
    """int32 [BLOCK_N]: the slots of a tile, -1 past the end. Tiles of the first source come first."""
    length0, length1, tiles0 = lengths
    first = i_tile < tiles0
    column = (i_tile - gl.where(first, 0, tiles0)) * BLOCK_N + o_row
    inside = column < gl.where(first, length0, length1)
    return gl.load(gl.where(first, p_slots0, p_slots1) + column, mask=inside, other=-1)


@gluon.jit
def _copy(tile, slots, first, caches, PAGES: gl.constexpr, STRIDES: gl.constexpr):
    """Starts to copy bf16 rows into a tile; zeros where there is no slot."""
    CHUNKS: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [gl.num_warps(), 1], [1, 0])
    D: gl.constexpr = tile.shape[1]
    slots = gl.convert_layout(slots, gl.SliceLayout(1, CHUNKS))
    p_page, row = locate(slots, first, caches, PAGES, STRIDES)
    o_d = gl.arange(0, D, layout=gl.SliceLayout(0, CHUNKS))
    p_chunk = (p_page + row * D)[:, None] + o_d[None, :]
    async_copy.async_copy_global_to_shared(tile, p_chunk, mask=(slots >= 0)[:, None])


@gluon.jit
def bring(
    items,
    deal,
    caches,
    p_slots,
    strides,
    stages,
    BLOCK_H: gl.constexpr,
    SOURCES: gl.constexpr,
    FP8: gl.constexpr,
    PAGE0: gl.constexpr,
    PAGE1: gl.constexpr,
    STRIDE0: gl.constexpr,
    STRIDE1: gl.constexpr,
):
    PAGES: gl.constexpr = (PAGE0, PAGE1)
    STRIDES: gl.constexpr = (STRIDE0, STRIDE1)
    keys, bars, brought, used = stages
    STAGES: gl.constexpr = keys.shape[0]
    BLOCK_N: gl.constexpr = keys.shape[1]
    D: gl.constexpr = keys.shape[2]
    tiles_as_words = keys._reinterpret(gl.int32, [STAGES, BLOCK_N, D // 2], gl.NVMMASharedLayout(128, 32, 2))
    o_row = gl.arange(0, BLOCK_N, layout=gl.SliceLayout(1, fp8_rows.group_layout(gl.num_warps())))
    n = 0
    for i_item in range(gl.program_id(0), items, gl.num_programs(0)):
        place, lengths, start, stop = share_of(i_item, deal, BLOCK_H, BLOCK_N, SOURCES)
        p_slots0 = p_slots[0] + place[0] * strides[0]
        p_slots1 = p_slots[1] + place[0] * strides[1]
        b_slots = _slots(start, lengths, p_slots0, p_slots1, o_row, BLOCK_N)
        b_later = _slots(start + 1, lengths, p_slots0, p_slots1, o_row, BLOCK_N)
        if FP8:
            words, scales = fp8_rows.read(b_slots, start < lengths[2], caches, D, PAGES, STRIDES)
        for i in range(start, stop):
            stage = n % STAGES
            mbarrier.wait(used.index(stage), n // STAGES % 2 ^ 1)
            if FP8:
                tile = tiles_as_words.index(stage)
                fp8_rows.copy_rope(tile, b_slots, i < lengths[2], caches, PAGES, STRIDES)
                async_copy.commit_group()
                fp8_rows.keep(words, scales, tile)
            else:
                _copy(keys.index(stage), b_slots, i < lengths[2], caches, PAGES, STRIDES)
                async_copy.commit_group()
            async_copy.wait_group(0)
            fence_async_shared()
            bars.index(stage).store(gl.where(b_slots >= 0, 0.0, NONE))
            mbarrier.arrive(brought.index(stage))
            n += 1
            b_slots = b_later
            if FP8:
                words, scales = fp8_rows.read(b_slots, i + 1 < lengths[2], caches, D, PAGES, STRIDES)
            b_later = _slots(i + 2, lengths, p_slots0, p_slots1, o_row, BLOCK_N)
