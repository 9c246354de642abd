"""The warps that bring rows into shared memory, in Gluon: tiles of keys, as bf16, in the order of the items.

A program works through items (some heads, a token, a split of its keys); its tiles are one row of them over all its
items. Slots are read two tiles ahead, rows of an fp8 cache one tile ahead. Shared memory holds STAGES tiles: `brought`
tells the readers that one is there, `used` that it may be overwritten.
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
    length1 = gl.to_tensor(0)
    if SOURCES == 2:
        length1 = gl.minimum(gl.maximum(gl.load(p_lengths1 + i_t), 0), width1)
    tiles0 = (length0 + BLOCK_N - 1) // BLOCK_N
    tiles = tiles0 + (length1 + BLOCK_N - 1) // BLOCK_N
    run = (tiles + splits - 1) // splits
    start = gl.minimum(i_s * run, tiles)
    return (i_t, i_h, i_s), (length0, length1, tiles0), start, gl.minimum(start + run, tiles)


@gluon.jit
def _open(i_item, items, deal, BLOCK_H: gl.constexpr, BLOCK_N: gl.constexpr, SOURCES: gl.constexpr):
    """Of i_item, or the next item of this program that has tiles: its number, first tile and end, lengths, token.

    Where none has, the end is no further than the first tile.
    """
    place, lengths, start, stop = share_of(i_item, deal, BLOCK_H, BLOCK_N, SOURCES)
    while (start >= stop) & (i_item + gl.num_programs(0) < items):
        i_item += gl.num_programs(0)
        place, lengths, start, stop = share_of(i_item, deal, BLOCK_H, BLOCK_N, SOURCES)
    return i_item, start, stop, lengths, place[0].to(gl.int32)


@gluon.jit
def _copy_slots(target, opened, tables, BLOCK_N: gl.constexpr):
    """Starts to copy those of the next tile, int32; how many there are, 0 past the end; whether of the first source."""
    p_slots, strides = tables
    _, i_tile, stop, lengths, i_t = opened
    length0, length1, tiles0 = lengths
    first = i_tile < tiles0
    column = (i_tile - gl.where(first, 0, tiles0)) * BLOCK_N
    count = gl.where(i_tile < stop, gl.minimum(gl.where(first, length0, length1) - column, BLOCK_N), 0)
    p_row = gl.where(first, p_slots[0] + i_t.to(gl.int64) * strides[0], p_slots[1] + i_t.to(gl.int64) * strides[1])
    o_column = gl.arange(0, BLOCK_N, layout=gl.BlockedLayout([1], [32], [gl.num_warps()], [0]))
    async_copy.async_copy_global_to_shared(target, p_row + column + o_column, mask=o_column < count)
    return count, first


@gluon.jit
def _after(opened, items, deal, BLOCK_H: gl.constexpr, BLOCK_N: gl.constexpr, SOURCES: gl.constexpr):
    """What is open when one more tile is done."""
    i_item, i_tile, stop, lengths, i_t = opened
    i_tile += 1
    if (i_tile >= stop) & (i_item + gl.num_programs(0) < items):
        i_item, i_tile, stop, lengths, i_t = _open(i_item + gl.num_programs(0), items, deal, BLOCK_H, BLOCK_N, SOURCES)
    return i_item, i_tile, stop, lengths, i_t


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
    keys, slots, scales, bars, brought, used = stages
    STAGES: gl.constexpr = keys.shape[0]
    BLOCK_N: gl.constexpr = keys.shape[1]
    D: gl.constexpr = keys.shape[2]
    tables = (p_slots, strides)
    tiles_as_words = keys._reinterpret(gl.int32, [STAGES, BLOCK_N, D // 2], gl.NVMMASharedLayout(128, 32, 2))
    o_row = gl.arange(0, BLOCK_N, layout=gl.SliceLayout(1, fp8_rows.group_layout(gl.num_warps())))
    opened = _open(gl.program_id(0), items, deal, BLOCK_H, BLOCK_N, SOURCES)
    count, first = _copy_slots(slots.index(0), opened, tables, BLOCK_N)
    opened = _after(opened, items, deal, BLOCK_H, BLOCK_N, SOURCES)
    count_next, first_next = _copy_slots(slots.index(1), opened, tables, BLOCK_N)
    async_copy.commit_group()
    async_copy.wait_group(0)
    b_slots = gl.where(o_row < count, slots.index(0).load(o_row.type.layout), -1)
    if FP8:
        rows = fp8_rows.rows_of(b_slots, first, caches, D, PAGES, STRIDES)
        words = fp8_rows.read_ahead(rows, D)
        fp8_rows.copy_scales(scales.index(0), rows)
        async_copy.commit_group()
        async_copy.wait_group(0)
    n = 0
    while count > 0:
        stage = n % STAGES
        opened = _after(opened, items, deal, BLOCK_H, BLOCK_N, SOURCES)
        b_next = gl.where(o_row < count_next, slots.index((n + 1) % 2).load(o_row.type.layout), -1)
        count_later, first_later = _copy_slots(slots.index(n % 2), opened, tables, BLOCK_N)
        mbarrier.wait(used.index(stage), n // STAGES % 2 ^ 1)
        if FP8:
            tile = tiles_as_words.index(stage)
            there = rows[2]
            b_scales = scales.index(n % 2).load(o_row.type.layout)
            fp8_rows.copy_rope(tile, rows)
            following = fp8_rows.rows_of(b_next, first_next, caches, D, PAGES, STRIDES)
            fp8_rows.copy_scales(scales.index((n + 1) % 2), following)
            async_copy.commit_group()
            words = fp8_rows.turn(words, b_scales, tile, rows, following)
            rows = following
        else:
            there = b_slots >= 0
            _copy(keys.index(stage), b_slots, first, caches, PAGES, STRIDES)
            async_copy.commit_group()
        async_copy.wait_group(0)
        fence_async_shared()
        bars.index(stage).store(gl.where(there, 0.0, NONE))
        mbarrier.arrive(brought.index(stage))
        n += 1
        b_slots, first, count = b_next, first_next, count_next
        first_next, count_next = first_later, count_later
