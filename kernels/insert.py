"""Write one float32 row into a cache from inside a kernel, byte for byte as the cache's own insert does."""

from functools import singledispatch

import triton
import triton.language as tl

from kernels.layouts import SCALE_GROUP, Cache, FP8DSMLACache, FP8IndexCache, PlainCache

GROUP = tl.constexpr(SCALE_GROUP)


@singledispatch
def layout_of(cache: Cache) -> tuple[int, int, int]:
    """The constants that `insert` takes: channels without position, rows of a page, elements of a page."""
    raise ValueError(f"{type(cache).__name__}: no kernel writes this layout; use plain, fp8_ds_mla or fp8")


@layout_of.register
def _(cache: PlainCache) -> tuple[int, int, int]:
    return 0, cache.page_size, cache.page_size * cache.width


@layout_of.register
def _(cache: FP8DSMLACache) -> tuple[int, int, int]:
    return cache.nope, cache.page_size, cache.data.shape[1]


@layout_of.register
def _(cache: FP8IndexCache) -> tuple[int, int, int]:
    return 0, cache.page_size, cache.data.shape[1]


@triton.jit
def insert(
    b_row,
    p_cache,
    i_slot,
    WIDTH: tl.constexpr,
    NOPE: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    PAGE_STRIDE: tl.constexpr,
):
    """b_row float32 [BLOCK], zero from WIDTH on; i_slot int64, not negative; constants from `layout_of`.

    Elements of a byte are one of the fp8 layouts: fp8_ds_mla where NOPE is not 0, else that of index keys.
    """
    BLOCK: tl.constexpr = b_row.shape[0]
    o_channel = tl.arange(0, BLOCK)
    i_row = i_slot % PAGE_SIZE
    p_page = p_cache + i_slot // PAGE_SIZE * PAGE_STRIDE
    if p_cache.dtype.element_ty != tl.uint8:
        tl.store(p_page + i_row * WIDTH + o_channel, b_row.to(p_cache.dtype.element_ty), mask=o_channel < WIDTH)
    elif NOPE > 0:
        ROW_BYTES: tl.constexpr = 2 * WIDTH - NOPE
        SCALES: tl.constexpr = NOPE // GROUP
        SCALE_BYTES: tl.constexpr = (SCALES + 7) // 8 * 8
        p_row = p_page + i_row * ROW_BYTES
        p_scales = p_page + PAGE_SIZE * ROW_BYTES + i_row * SCALE_BYTES
        b_values, b_exponent = quantised(tl.reshape(b_row, [BLOCK // GROUP, GROUP]))
        tl.store(p_row + o_channel, tl.reshape(b_values, [BLOCK]), mask=o_channel < NOPE)
        o_scale = tl.arange(0, BLOCK // GROUP)
        tl.store(p_scales + o_scale, b_exponent.to(tl.uint8), mask=o_scale < SCALES)
        o_pad = tl.arange(0, 8)
        tl.store(p_scales + SCALE_BYTES - 8 + o_pad, tl.zeros([8], tl.uint8), mask=o_pad >= SCALES - (SCALE_BYTES - 8))
        p_rope = (p_row + NOPE).to(tl.pointer_type(tl.bfloat16))
        tl.store(p_rope + o_channel - NOPE, b_row.to(tl.bfloat16), mask=(o_channel >= NOPE) & (o_channel < WIDTH))
    else:
        b_values, b_exponent = quantised(b_row[None, :])
        tl.store(p_page + i_row * WIDTH + o_channel, tl.reshape(b_values, [BLOCK]), mask=o_channel < WIDTH)
        p_scale = (p_page + PAGE_SIZE * WIDTH + i_row * 4).to(tl.pointer_type(tl.float32))
        b_scale = (b_exponent << 23).to(tl.float32, bitcast=True)
        tl.store(p_scale + tl.arange(0, 1), b_scale)


@triton.jit
def quantised(b_x):
    """b_x float32 [GROUPS, CHANNELS] -> e4m3 bytes of the same shape and int32 [GROUPS], 127 + log2(scale).

    As `kernels.layouts.quantise`. ceil(log2(amax / 448)) is read off the float's bits: 448 is 1.75 * 2**8, so the
    exponent rises by one where the mantissa is above 1.75.
    """
    b_x = b_x.to(tl.bfloat16).to(tl.float32)
    b_amax = tl.maximum(tl.max(tl.abs(b_x), 1), 1e-4)
    b_exponent = ((b_amax.to(tl.int32, bitcast=True) + 0x1FFFFF) >> 23) - 8
    b_inverse = ((254 - b_exponent) << 23).to(tl.float32, bitcast=True)
    b_scaled = tl.clamp(b_x * b_inverse[:, None], -448.0, 448.0)
    return b_scaled.to(tl.float8e4nv).to(tl.uint8, bitcast=True), b_exponent
