"""Accumulators [heads, channels] of two warp groups, and how they are written, in Gluon."""

import triton.experimental.gluon.language as gl
from triton.experimental import gluon


@gluon.constexpr_function
def value_layout(warps, width):
    return gl.NVMMADistributedLayout([3, 0], [4, warps // 4], [16, min(128, width // 2), 16])


@gluon.constexpr_function
def _row_layout(warps, width):
    """As value_layout, but four neighbouring threads hold 8 channels each where they held 2 channels of 4 blocks."""
    assert warps == 8
    block = min(128, width // 2)
    registers = [[0, 1], [0, 2], [0, 4]]
    registers += [[0, 32 << i] for i in range(3) if 32 << i < block] + [[8, 0]]
    registers += [[0, 2 * block << i] for i in range(3) if 2 * block << i < width]
    lanes = [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, [[16, 0], [32, 0], [0, block]], [], [64, width])


@gluon.jit
def write(p_out, o_row, m_row, b_out):
    """b_out [heads, channels] to rows o_row, 16 bytes or more a thread."""
    D: gl.constexpr = b_out.shape[1]
    ROWS: gl.constexpr = _row_layout(gl.num_warps(), D)
    o_d = gl.arange(0, D, layout=gl.SliceLayout(0, ROWS))
    b_row = gl.convert_layout(b_out.to(p_out.dtype.element_ty), ROWS)
    p_row = p_out + gl.convert_layout(o_row, gl.SliceLayout(1, ROWS))[:, None] * D + o_d[None, :]
    gl.store(p_row, b_row, mask=gl.convert_layout(m_row, gl.SliceLayout(1, ROWS))[:, None])
