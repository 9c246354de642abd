"""Rows of the step on their way to the state, inside a kernel."""

import triton
import triton.language as tl


@triton.jit
def rows_of_step(inputs, i_first, o_row, o_channel, m_row):
    """kv and score of tokens i_first + o_row, float32 [ROWS, CHANNELS]. Channels are counted over the whole row."""
    p_kv, p_score, stride_kv, stride_score, _, _ = inputs
    i_first = i_first.to(tl.int64)
    o_kv = o_row[:, None] * stride_kv + o_channel
    o_score = o_row[:, None] * stride_score + o_channel
    b_kv = tl.load(p_kv + i_first * stride_kv + o_kv, mask=m_row, other=0.0)
    return b_kv, tl.load(p_score + i_first * stride_score + o_score, mask=m_row, other=0.0)


@triton.jit
def ape_of(inputs, o_position, o_channel, m_row, WIDTH: tl.constexpr):
    """Float32 [ROWS, CHANNELS]; o_position: within a window. WIDTH is that of a whole row."""
    return tl.load(inputs[4] + (o_position[:, None] * WIDTH + o_channel), mask=m_row, other=0.0)


@triton.jit
def store_rows(inputs, b_slot, o_channel, m_row, b_kv, b_score, WIDTH: tl.constexpr):
    p_row = inputs[5] + b_slot[:, None] * (2 * WIDTH) + o_channel
    m_row = m_row & (b_slot >= 0)[:, None]
    tl.store(p_row, b_kv, mask=m_row)
    tl.store(p_row + WIDTH, b_score, mask=m_row)


@triton.jit
def copy_rows(
    inputs,
    i_first,
    i_stop,
    i_channel,
    p_positions,
    p_valid,
    p_state_slots,
    WIDTH: tl.constexpr,
    RATIO: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """Channels from i_channel on of tokens [i_first, i_stop), ROWS at most, to the state."""
    o_row = tl.arange(0, ROWS)
    m_token = i_first + o_row < i_stop
    b_slot = tl.load(p_state_slots + i_first + o_row, mask=m_token, other=-1)
    b_position = tl.load(p_positions + i_first + o_row, mask=m_token, other=0)
    b_valid = tl.load(p_valid + i_first + o_row, mask=m_token, other=0)
    o_channel = (i_channel + tl.arange(0, CHANNELS))[None, :]
    # [ROWS, CHANNELS]
    m_row = m_token[:, None] & (o_channel < WIDTH)
    b_kv, b_score = rows_of_step(inputs, i_first, o_row, o_channel, m_row)
    b_score += ape_of(inputs, b_position % RATIO, o_channel, m_row, WIDTH)
    store_rows(inputs, b_slot, o_channel, m_row & (b_valid != 0)[:, None], b_kv, b_score, WIDTH)
