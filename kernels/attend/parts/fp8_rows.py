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


@gluon.constexpr_function
def _groups_ahead(width):
    return max((width - ROPE.value) // GROUP.value - 1, 1)


@gluon.jit
def rows_of(slots, first, caches, D: gl.constexpr, PAGES: gl.constexpr, STRIDES: gl.constexpr):
    """Pointers to the words and to the scales of each slot's row, int32 and int64 [N]; and whether there is one."""
    DATA_ROW: gl.constexpr = D + ROPE
    p_page, row = locate(slots, first, caches, PAGES, STRIDES)
    page = PAGES[0]
    if PAGES[0] != PAGES[1]:
        page = gl.where(first, PAGES[0], PAGES[1])
    p_word = (p_page + row * DATA_ROW).to(gl.pointer_type(gl.int32), bitcast=True)
    p_scale = (p_page + (page * DATA_ROW + row * SCALE_ROW)).to(gl.pointer_type(gl.int64), bitcast=True)
    return p_word, p_scale, slots >= 0


@gluon.jit
def read_ahead(rows, D: gl.constexpr):
    """For each group of channels but the last words [N, 16], four e4m3 in each. A single group is not left out."""
    words = ()
    for g in gl.static_range(_groups_ahead(D)):
        words += (_read_group(rows, g),)
    return words


@gluon.jit
def _read_group(rows, g: gl.constexpr):
    p_word, _, there = rows
    o_word = g * (GROUP // 4) + gl.arange(0, GROUP // 4, layout=gl.SliceLayout(0, group_layout(gl.num_warps())))
    return gl.load(p_word[:, None] + o_word[None, :], mask=there[:, None], other=0)


@gluon.jit
def copy_scales(target, rows):
    """Starts to copy the scales of each row, a byte for each group of channels, into int64 [N]."""
    _, p_scale, there = rows
    async_copy.async_copy_global_to_shared(target, p_scale, mask=there)


@gluon.jit
def copy_rope(tile, rows):
    """Starts to copy the bf16 channels into the last columns of a tile of words [N, D / 2]; zeros without a slot."""
    WORDS: gl.constexpr = word_layout(gl.num_warps())
    GROUPS: gl.constexpr = tile.shape[1] // (GROUP // 2) - 1
    p_word, _, there = rows
    p_word = gl.convert_layout(p_word, gl.SliceLayout(1, WORDS), assert_trivial=True)
    there = gl.convert_layout(there, gl.SliceLayout(1, WORDS), assert_trivial=True)
    o_word = GROUPS * (GROUP // 4) + gl.arange(0, ROPE // 2, layout=gl.SliceLayout(0, WORDS))
    target = tile.slice(GROUPS * (GROUP // 2), ROPE // 2, dim=1)
    async_copy.async_copy_global_to_shared(target, p_word[:, None] + o_word[None, :], mask=there[:, None])


@gluon.jit
def turn(words, scales, tile, rows, following):
    """Dequantises a tile's rows into words [N, D / 2], two bf16 in each, and reads ahead of the rows that follow.

    A group that is written makes room for the next to be read: the last of these rows, then the others of those that
    follow. So each is on its way for nearly a whole tile, in the registers of one group less than a row has.
    """
    GROUPS: gl.constexpr = tile.shape[1] // (GROUP // 2) - 1
    ahead = ()
    for g in gl.static_range(GROUPS):
        _keep_group(words[g], scales, tile, g)
        if len(words) < GROUPS:
            words += (_read_group(rows, GROUPS - 1),)
        else:
            ahead += (_read_group(following, len(ahead)),)
    return ahead


@gluon.jit
def _keep_group(words, scales, tile, g: gl.constexpr):
    scale = ((scales >> (8 * g)) & 0xFF).to(gl.int32) * 0x00800080
    scale, _ = gl.broadcast(scale[:, None], words)
    low, high = _dequantise(words, scale)
    tile.slice(g * (GROUP // 2), GROUP // 2, dim=1).store(gl.join(low, high).reshape([low.shape[0], GROUP // 2]))


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
