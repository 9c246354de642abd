"""What stands in the columns of one token's row, whichever program makes them."""

import triton
import triton.language as tl


@triton.jit
def combined(
    p_chosen,
    i_token,
    i_position,
    i_first,
    valid,
    i_base,
    o_column,
    topk,
    entries,
    RATIO: tl.constexpr,
    WINDOW: tl.constexpr,
    LOAD: tl.constexpr,
):
    """Indices int32 [BLOCK] and the length of the row of i_token int64. p_chosen None: it attends all that it sees."""
    i_seen = tl.where(valid, tl.maximum(i_position + 1, 0), 0)
    i_visible = 0
    if RATIO > 0:
        i_visible = tl.minimum(i_seen // RATIO, topk)
    i_recent = tl.minimum(i_seen, WINDOW)
    # [BLOCK]
    b_row = entries + i_position + 1 - i_recent - i_first + o_column - i_visible
    m_entry = o_column < i_visible
    b_entry = o_column
    if p_chosen is not None:
        # whole words of 16 bytes: no more is read than that, and still 16 bytes at a time
        m_load = (o_column < (i_visible + 3) // 4 * 4) & (o_column < topk)
        b_entry = tl.load(p_chosen + i_token * topk + o_column, mask=m_load, other=-1, eviction_policy=LOAD)
    b_row = tl.where(m_entry, b_entry, b_row)
    m_held = (o_column < i_visible + i_recent) & (b_row >= 0)
    return tl.where(m_held, i_base + b_row, -1), i_visible + i_recent
