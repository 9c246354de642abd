"""Accumulators [heads, channels] of two warp groups, and how they are written, in Gluon."""

import triton.experimental.gluon.language as gl
from triton.experimental import gluon


@gluon.constexpr_function
def value_layout(warps, width):
    return gl.NVMMADistributedLayout([3, 0], [4, warps // 4], [16, min(128, width // 2), 16])


@gluon.constexpr_function
def _row_layout(warps, width):
    """Every other 8 rows of value_layout, but four neighbouring threads hold 8 channels each where they held 2 channels
    of 4 blocks.
    """
    assert warps == 8
    block = min(128, width // 2)
    registers = [[0, 1], [0, 2], [0, 4]]
    registers += [[0, 32 << i] for i in range(3) if 32 << i < block]
    registers += [[0, 2 * block << i] for i in range(3) if 2 * block << i < width]
    lanes = [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, [[8, 0], [16, 0], [0, block]], [], [32, width])


@gluon.jit
def write(p_out, heads, b_out):
    """The first `heads` rows of b_out [64, channels] to rows that lie side by side."""
    if p_out.dtype.element_ty == gl.float32:
        _write_at_once(p_out, heads, b_out)
    else:
        _write_by_halves(p_out, heads, b_out)


@gluon.jit
def _write_at_once(p_out, heads, b_out):
    """Four neighbouring threads write 32 bytes."""
    D: gl.constexpr = b_out.shape[1]
    o_h = gl.arange(0, b_out.shape[0], layout=gl.SliceLayout(1, b_out.type.layout))
    o_d = gl.arange(0, D, layout=gl.SliceLayout(0, b_out.type.layout))
    gl.store((p_out + o_h * D)[:, None] + o_d[None, :], b_out, mask=(o_h < heads)[:, None])


@gluon.jit
def _write_by_halves(p_out, heads, b_out):
    """16 bytes or more a thread, one of its two rows at a time, which takes fewer registers."""
    D: gl.constexpr = b_out.shape[1]
    ROWS: gl.constexpr = _row_layout(gl.num_warps(), D)
    o_row = gl.arange(0, 32, layout=gl.SliceLayout(1, ROWS))
    o_h = o_row // 8 * 16 + o_row % 8
    o_d = gl.arange(0, D, layout=gl.SliceLayout(0, ROWS))
    halves = gl.split(gl.permute(b_out.to(p_out.dtype.element_ty).reshape([4, 2, 8, D]), (0, 2, 3, 1)))
    for half in gl.static_range(2):
        b_row = gl.convert_layout(halves[half].reshape([32, D]), ROWS)
        m_row = o_h + half * 8 < heads
        gl.store((p_out + half * 8 * D + o_h * D)[:, None] + o_d[None, :], b_row, mask=m_row[:, None])
