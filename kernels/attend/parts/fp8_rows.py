"""Rows of an fp8_ds_mla cache on their way into shared memory, in Gluon, a tile of keys at a time.

Four neighbouring threads read a row, 16 bytes each of every group of 64 channels. All values travel as 32-bit words;
e4m3 times a power of two is exact in bf16.
"""

import triton.experimental.gluon.language as gl
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.hopper import async_copy

from kernels.attend.parts.rows import locate
from kernels.layouts import SCALE_GROUP

GROUP: gl.constexpr = gl.constexpr(SCALE_GROUP)
ROPE: gl.constexpr = gl.constexpr(64)
SCALE_ROW: gl.constexpr = gl.constexpr(8)


@gluon.constexpr_function
def group_layout(warps):
    return gl.BlockedLayout([1, 4], [8, 4], [warps, 1], [1, 0])


@gluon.constexpr_function
def word_layout(warps):
    return gl.BlockedLayout([1, 8], [8, 4], [warps, 1], [1, 0])


@gluon.jit
def read(slots, first, caches, D: gl.constexpr, PAGES: gl.constexpr, STRIDES: gl.constexpr):
    """For each group of channels words [N, 16], four e4m3 in each; and the scales [N], a byte for each group."""
    GROUPS: gl.constexpr = (D - ROPE) // GROUP
    DATA_ROW: gl.constexpr = GROUPS * GROUP + 2 * ROPE
    live = slots >= 0
    p_page, row = locate(slots, first, caches, PAGES, STRIDES)
    page = PAGES[0]
    if PAGES[0] != PAGES[1]:
        page = gl.where(first, PAGES[0], PAGES[1])
    p_scale = p_page + (page * DATA_ROW + row * SCALE_ROW)
    scales = gl.load(p_scale.to(gl.pointer_type(gl.int64), bitcast=True), mask=live, other=0)
    p_word = (p_page + row * DATA_ROW).to(gl.pointer_type(gl.int32), bitcast=True)
    o_word = gl.arange(0, GROUP // 4, layout=gl.SliceLayout(0, group_layout(gl.num_warps())))
    words = ()
    for g in gl.static_range(GROUPS):
        words += (gl.load(p_word[:, None] + (g * (GROUP // 4) + o_word)[None, :], mask=live[:, None], other=0),)
    return words, scales


@gluon.jit
def copy_rope(tile, slots, first, caches, PAGES: gl.constexpr, STRIDES: gl.constexpr):
    """Starts to copy the bf16 channels into the last columns of a tile of words [N, D / 2]; zeros without a slot."""
    WORDS: gl.constexpr = word_layout(gl.num_warps())
    GROUPS: gl.constexpr = tile.shape[1] // (GROUP // 2) - 1
    slots = gl.convert_layout(slots, gl.SliceLayout(1, WORDS), assert_trivial=True)
    p_page, row = locate(slots, first, caches, PAGES, STRIDES)
    p_word = (p_page + row * (GROUPS * GROUP + 2 * ROPE)).to(gl.pointer_type(gl.int32), bitcast=True)
    o_word = GROUPS * (GROUP // 4) + gl.arange(0, ROPE // 2, layout=gl.SliceLayout(0, WORDS))
    target = tile.slice(GROUPS * (GROUP // 2), ROPE // 2, dim=1)
    async_copy.async_copy_global_to_shared(target, p_word[:, None] + o_word[None, :], mask=(slots >= 0)[:, None])


@gluon.jit
def keep(words, scales, tile):
    """Dequantises what was read and writes it to a tile of words [N, D / 2], two bf16 in each."""
    for level in gl.static_range(2, -1, -1):
        if len(words) >> level & 1:
            _keep_groups(words, scales, tile, len(words) >> (level + 1) << (level + 1), 1 << level)


@gluon.jit
def _keep_groups(words, scales, tile, FIRST: gl.constexpr, COUNT: gl.constexpr):
    parts = ()
    for g in gl.static_range(FIRST, FIRST + COUNT):
        scale = ((scales >> (8 * g)) & 0xFF).to(gl.int32) * 0x00800080
        scale, _ = gl.broadcast(scale[:, None], words[g])
        low, high = _dequantise(words[g], scale)
        parts += (gl.join(low, high).reshape([low.shape[0], GROUP // 2]),)
    tile.slice(FIRST * (GROUP // 2), COUNT * (GROUP // 2), dim=1).store(_side_by_side(parts))


@gluon.jit
def _dequantise(words, scale):
    """Four e4m3 and a bf16 scale, twice -> two words of two bf16.

    Shifted into place, the e4m3 bits are a bf16 that is 2 ** 120 too small, subnormals included.
    """
    return gl.inline_asm_elementwise(
        """
        {
        .reg .b32 low, high, a, b, lift;
        mov.b32 lift, 0x7b807b80;
        prmt.b32 low, $2, 0, 0x1404;
        prmt.b32 high, $2, 0, 0x3424;
        shr.b32 a, low, 4;
        shr.b32 b, high, 4;
        and.b32 a, a, 0x07f007f0;
        and.b32 b, b, 0x07f007f0;
        lop3.b32 low, low, 0x80008000, a, 0xea;
        lop3.b32 high, high, 0x80008000, b, 0xea;
        mul.rn.bf16x2 low, low, lift;
        mul.rn.bf16x2 high, high, lift;
        mul.rn.bf16x2 $0, low, $3;
        mul.rn.bf16x2 $1, high, $3;
        }
        """,
        "=r,=r,r,r",
        [words, scale],
        dtype=(gl.int32, gl.int32),
        is_pure=True,
        pack=1,
    )


@gluon.jit
def _side_by_side(parts):
    """2 ** n tensors [N, w] -> [N, w * 2 ** n]; registers keep their values."""
    for _ in gl.static_range(3):
        if len(parts) > 1:
            wider = ()
            for i in gl.static_range(0, len(parts), 2):
                pair = gl.permute(gl.join(parts[i], parts[i + 1]), (0, 2, 1))
                wider += (pair.reshape([pair.shape[0], 2 * pair.shape[2]]),)
            parts = wider
    return parts[0]
