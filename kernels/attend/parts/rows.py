"""Where the row of a slot lies, in Gluon."""

import triton.experimental.gluon.language as gl
from triton.experimental import gluon


@gluon.jit
def locate(slots, first, caches, PAGES: gl.constexpr, STRIDES: gl.constexpr):
    """slots int32 [N] of the first or the second cache -> each slot's page, a pointer, and row; slot 0 for none."""
    p_cache0, p_cache1 = caches
    known = gl.where(slots >= 0, slots, 0)
    p_page = gl.where(first, p_cache0, p_cache1) + (known // PAGES[0]).to(gl.int64) * STRIDES[0]
    row = known % PAGES[0]
    if PAGES[0] != PAGES[1] or STRIDES[0] != STRIDES[1]:
        p_page = gl.where(first, p_page, p_cache1 + (known // PAGES[1]).to(gl.int64) * STRIDES[1])
        row = gl.where(first, row, known % PAGES[1])
    return p_page, row
