"""Read rows of a cache from inside a kernel, dequantised: the counterpart of kernels.insert."""

import triton
import triton.language as tl

from kernels.layouts import SCALE_GROUP, Cache, FP8DSMLACache

GROUP = tl.constexpr(SCALE_GROUP)
SCALE_ROW = tl.constexpr(8)


def layout_of(cache: Cache) -> tuple[bool, int, int, int, int]:
    """FP8, PAGE, STRIDE, A and B, as `fetch` takes them."""
    scaled = isinstance(cache, FP8DSMLACache)
    rotated = cache.rope if scaled else 0
    return scaled, cache.page_size, cache.data.stride(0), cache.width - rotated, rotated


@triton.jit
def _plain_part(p_row, m_row, first, o_c, C: tl.constexpr, dtype: tl.constexpr):
    m_part = m_row[:, None] & (o_c < C)[None, :]
    return tl.load(p_row[:, None] + (first + o_c)[None, :], mask=m_part, other=0.0).to(dtype)


@triton.jit
def _scaled_part(p_row, p_scale, m_row, GROUPS: tl.constexpr, BLOCK_G: tl.constexpr, dtype: tl.constexpr):
    """e4m3 and UE8M0 -> [BLOCK_N, BLOCK_G * GROUP], exact."""
    o_g = tl.arange(0, BLOCK_G)
    o_c = tl.arange(0, GROUP)
    m_group = m_row[:, None] & (o_g < GROUPS)[None, :]
    b_scale = tl.load(p_scale[:, None] + o_g[None, :], mask=m_group, other=0)
    b_scale = (b_scale.to(tl.int32) << 23).to(tl.float32, bitcast=True).to(dtype)
    p_value = p_row[:, None, None] + o_g[None, :, None] * GROUP + o_c[None, None, :]
    b_value = tl.load(p_value, mask=m_group[:, :, None], other=0)
    b_value = b_value.to(tl.float8e4nv, bitcast=True).to(dtype) * b_scale[:, :, None]
    return b_value.reshape(p_row.shape[0], BLOCK_G * GROUP)


@triton.jit
def fetch(
    p_cache,
    b_slots,
    FP8: tl.constexpr,
    PAGE: tl.constexpr,
    STRIDE: tl.constexpr,
    A: tl.constexpr,
    B: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK_B: tl.constexpr,
    dtype: tl.constexpr,
):
    """Rows of b_slots int [N] in two parts: A channels without position [N, BLOCK_A], B rotated ones [N, BLOCK_B].

    Zeros where there is no slot. Constants from `layout_of`; plain rows may be split anywhere.
    """
    m_row = b_slots >= 0
    b_known = tl.where(m_row, b_slots, 0)
    b_page = (b_known // PAGE).to(tl.int64) * STRIDE
    b_row = b_known % PAGE
    o_b = tl.arange(0, BLOCK_B)
    if FP8:
        p_row = p_cache + b_page + b_row * (A + 2 * B)
        p_scale = p_cache + b_page + (PAGE * (A + 2 * B) + b_row * SCALE_ROW)
        b_a = _scaled_part(p_row, p_scale, m_row, A // GROUP, BLOCK_A // GROUP, dtype)
        p_rope = (p_row + A).to(tl.pointer_type(tl.bfloat16), bitcast=True)
        return b_a, _plain_part(p_rope, m_row, 0, o_b, B, dtype)
    else:
        p_row = p_cache + b_page + b_row * (A + B)
        b_a = _plain_part(p_row, m_row, 0, tl.arange(0, BLOCK_A), A, dtype)
        return b_a, _plain_part(p_row, m_row, A, o_b, B, dtype)
