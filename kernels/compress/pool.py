"""Rows of a window on their way to an entry, inside a kernel: a softmax per channel."""

import triton
import triton.language as tl

from kernels.compress.store import ape_of

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def sums_of(b_kv, b_score):
    """Highest score, sum of weights, weighted sum of rows [ROWS, CHANNELS]: float32 [CHANNELS] each.

    A score of -inf takes no part; one of each channel is finite.
    """
    b_highest = tl.max(b_score, 0)
    b_weight = tl.exp2(b_score * LOG2E - (b_highest * LOG2E)[None, :])
    return b_highest, tl.sum(b_weight, 0), tl.sum(b_weight * b_kv, 0)


@triton.jit
def sums_with(sums, b_kv, b_score):
    """One block of rows more; its scores may all be -inf."""
    b_highest, b_total, b_sum = sums
    b_new = tl.maximum(b_highest, tl.max(b_score, 0))
    b_rescale = tl.exp2((b_highest - b_new) * LOG2E)
    b_weight = tl.exp2(b_score * LOG2E - (b_new * LOG2E)[None, :])
    b_total = b_total * b_rescale + tl.sum(b_weight, 0)
    return b_new, b_total, b_sum * b_rescale + tl.sum(b_weight * b_kv, 0)


@triton.jit
def rows_of_window(
    inputs,
    p_table,
    i_token,
    o_back,
    i_position,
    m_row,
    m_held,
    o_block,
    o_width,
    WIDTH: tl.constexpr,
    WINDOWS: tl.constexpr,
    STATE_PAGE_SIZE: tl.constexpr,
):
    """kv and score, float32 [ROWS, CHANNELS], of the tokens o_back before i_token, which is at i_position.

    m_held: those that are read from the inputs, their scores without ape; others come from the state. o_block [ROWS]:
    the block of WIDTH channels that a row gives; o_width: the channels of it.
    """
    p_kv, p_score, stride_kv, stride_score, _, p_state = inputs
    STRIDE: tl.constexpr = WINDOWS * WIDTH
    o_behind = i_position - o_back
    b_page = tl.load(p_table + o_behind // STATE_PAGE_SIZE, mask=m_row, other=0).to(tl.int64)
    o_then = ((b_page * STATE_PAGE_SIZE + o_behind % STATE_PAGE_SIZE) * (2 * STRIDE))[:, None]
    o_now = (i_token - o_back).to(tl.int64)[:, None]
    # [ROWS, CHANNELS]
    m_load = m_row[:, None] & (o_width < WIDTH)[None, :]
    o_channel = (o_block * WIDTH)[:, None] + o_width[None, :]
    p_kv_row = tl.where(m_held[:, None], p_kv + o_now * stride_kv, p_state + o_then)
    p_score_row = tl.where(m_held[:, None], p_score + o_now * stride_score, p_state + o_then + STRIDE)
    b_kv = tl.load(p_kv_row + o_channel, mask=m_load, other=0.0)
    return b_kv, tl.load(p_score_row + o_channel, mask=m_load, other=0.0)


@triton.jit
def pool_window(
    inputs,
    p_table,
    i_token,
    i_position,
    i_held,
    i_channel,
    WIDTH: tl.constexpr,
    WINDOWS: tl.constexpr,
    RATIO: tl.constexpr,
    STATE_PAGE_SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """float32 [CHANNELS] from i_channel on: the window that i_token closes, and those before; i_held: `rows_held`."""
    o_width = i_channel + tl.arange(0, CHANNELS)
    sums = ()
    for start in tl.static_range(0, WINDOWS * RATIO, ROWS):
        o_back = start + tl.arange(0, ROWS)
        o_block = WINDOWS - 1 - o_back // RATIO
        m_row = (o_back < WINDOWS * RATIO) & (o_back <= i_position)
        b_kv, b_score = rows_of_window(
            *(inputs, p_table, i_token, o_back, i_position, m_row, o_back < i_held, o_block, o_width),
            *(WIDTH, WINDOWS, STATE_PAGE_SIZE),
        )
        m_ape = (m_row & (o_back < i_held))[:, None] & (o_width < WIDTH)[None, :]
        o_channel = (o_block * WIDTH)[:, None] + o_width[None, :]
        o_phase = RATIO - 1 - o_back % RATIO
        b_score += ape_of(inputs, o_phase, o_channel, m_ape, WINDOWS * WIDTH)
        b_score = tl.where(m_row[:, None], b_score, -float("inf"))
        sums = sums_of(b_kv, b_score) if start == 0 else sums_with(sums, b_kv, b_score)
    return tl.where(o_width < WIDTH, sums[2] / sums[1], 0.0)


@triton.jit
def rows_held(step, i_token, i_position, i_request, ROWS: tl.constexpr):
    """How many of the last ROWS tokens of the request, up to i_token, are rows of this step."""
    p_positions, p_request, p_valid = step
    o_back = tl.arange(0, ROWS)
    m_row = o_back <= i_token
    b_position = tl.load(p_positions + i_token - o_back, mask=m_row, other=-1)
    b_request = tl.load(p_request + i_token - o_back, mask=m_row, other=-1)
    b_valid = tl.load(p_valid + i_token - o_back, mask=m_row, other=0)
    m_held = (b_position == i_position - o_back) & (b_request == i_request) & (b_valid != 0)
    return tl.sum(m_held.to(tl.int32), 0)
