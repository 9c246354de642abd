"""Rows on their way to the state, inside a kernel."""

import triton
import triton.language as tl


@triton.jit
def store_rows(
    inputs,
    i_first,
    tokens,
    p_positions,
    p_valid,
    p_state_slots,
    WIDTH: tl.constexpr,
    RATIO: tl.constexpr,
    STORED: tl.constexpr,
):
    """kv and score + ape of tokens [i_first, i_first + STORED) to the state."""
    p_kv, p_score, stride_kv, stride_score, p_ape, p_state = inputs
    o_token = i_first + tl.arange(0, STORED)
    m_token = o_token < tokens
    b_slot = tl.load(p_state_slots + o_token, mask=m_token, other=-1)
    b_position = tl.load(p_positions + o_token, mask=m_token, other=0)
    m_token &= (b_slot >= 0) & (tl.load(p_valid + o_token, mask=m_token, other=0) != 0)
    o_channel = tl.arange(0, triton.next_power_of_2(WIDTH))[None, :]
    # [STORED, BLOCK_WIDTH]
    m_row = m_token[:, None] & (o_channel < WIDTH)
    b_kv = tl.load(p_kv + o_token.to(tl.int64)[:, None] * stride_kv + o_channel, mask=m_row)
    b_score = tl.load(p_score + o_token.to(tl.int64)[:, None] * stride_score + o_channel, mask=m_row)
    b_ape = tl.load(p_ape + (b_position % RATIO)[:, None] * WIDTH + o_channel, mask=m_row)
    p_row = p_state + b_slot[:, None] * (2 * WIDTH) + o_channel
    tl.store(p_row, b_kv, mask=m_row)
    tl.store(p_row + WIDTH, b_score + b_ape, mask=m_row)
