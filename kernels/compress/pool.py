"""Windows on their way to the cache, inside a kernel: pooled from their rows, normed, rotated, inserted."""

import triton
import triton.language as tl

from kernels.insert import insert
from kernels.rotary import angles, turned

LARGEST = tl.constexpr(2**31 - 1)


@triton.jit
def pool_windows(
    inputs,
    outputs,
    i_first,
    i_channel,
    tokens,
    p_positions,
    p_valid,
    p_slots,
    p_cos,
    p_sin,
    eps,
    p_request,
    p_state_table,
    stride_table,
    WIDTH: tl.constexpr,
    RATIO: tl.constexpr,
    ROTATED: tl.constexpr,
    NOPE: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    PAGE_STRIDE: tl.constexpr,
    WINDOWS: tl.constexpr,
    STATE_PAGE_SIZE: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    SPLITS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """The windows that tokens [i_first, i_first + CHUNK) close, channels from i_channel on."""
    p_norm, p_cache, p_pieces = outputs
    o_token = i_first + tl.arange(0, CHUNK)
    m_token = o_token < tokens
    b_slot = tl.load(p_slots + o_token, mask=m_token, other=-1)
    b_valid = tl.load(p_valid + o_token, mask=m_token, other=0)
    b_position = tl.load(p_positions + o_token, mask=m_token, other=0)
    b_request = tl.load(p_request + o_token, mask=m_token, other=0)
    m_closing = (b_slot >= 0) & (b_valid != 0) & (i_channel < WIDTH)
    for _ in range(tl.sum(m_closing.to(tl.int32), 0)):
        i_token = tl.min(tl.where(m_closing, o_token, LARGEST), 0)
        m_this = o_token == i_token
        m_closing &= o_token != i_token
        i_slot = tl.sum(tl.where(m_this, b_slot, 0), 0)
        i_position = tl.sum(tl.where(m_this, b_position, 0), 0)
        i_request = tl.sum(tl.where(m_this, b_request, 0), 0)
        i_held = rows_held(
            *(p_positions, p_request, p_valid, i_token, i_position, i_request),
            triton.next_power_of_2(WINDOWS * RATIO),
        )
        p_table = p_state_table + i_request.to(tl.int64) * stride_table
        if SPLITS == 1:
            factors = finish_factors(p_norm, p_cos, p_sin, i_position + 1 - RATIO, WIDTH, ROTATED, CHANNELS)
        b_entry = pooled(
            *(inputs, p_table, i_token, i_position, i_held, i_channel),
            *(WIDTH, WINDOWS, RATIO, STATE_PAGE_SIZE, ROWS, CHANNELS),
        )
        if SPLITS == 1:
            insert(
                finished(b_entry, factors, eps, WIDTH, ROTATED), p_cache, i_slot, WIDTH, NOPE, PAGE_SIZE, PAGE_STRIDE
            )
        else:
            o_channel = i_channel + tl.arange(0, CHANNELS)
            tl.store(p_pieces + i_token.to(tl.int64) * WIDTH + o_channel, b_entry, mask=o_channel < WIDTH)


@triton.jit
def rows_held(p_positions, p_request, p_valid, i_token, i_position, i_request, ROWS: tl.constexpr):
    """How many of the last ROWS tokens of the request, up to i_token, are rows of this step."""
    o_back = tl.arange(0, ROWS)
    m_row = o_back <= i_token
    b_position = tl.load(p_positions + i_token - o_back, mask=m_row, other=-1)
    b_request = tl.load(p_request + i_token - o_back, mask=m_row, other=-1)
    b_valid = tl.load(p_valid + i_token - o_back, mask=m_row, other=0)
    m_held = (b_position == i_position - o_back) & (b_request == i_request) & (b_valid != 0)
    return tl.sum(m_held.to(tl.int32), 0)


@triton.jit
def pooled(
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
    """float32 [CHANNELS] from i_channel on: softmax over the rows of the window that i_token closes, and those before.

    The last i_held rows are read from the inputs, the others from the state.
    """
    p_kv, p_score, stride_kv, stride_score, p_ape, p_state = inputs
    STRIDE: tl.constexpr = WINDOWS * WIDTH
    o_width = i_channel + tl.arange(0, CHANNELS)
    b_highest = tl.full([CHANNELS], -float("inf"), tl.float32)
    b_total = tl.zeros([CHANNELS], tl.float32)
    b_sum = tl.zeros([CHANNELS], tl.float32)
    for start in range(0, WINDOWS * RATIO, ROWS):
        o_back = start + tl.arange(0, ROWS)
        o_behind = i_position - o_back
        m_row = (o_back < WINDOWS * RATIO) & (o_behind >= 0)
        m_now = o_back < i_held
        b_page = tl.load(p_table + o_behind // STATE_PAGE_SIZE, mask=m_row & ~m_now, other=0).to(tl.int64)
        o_then = (b_page * STATE_PAGE_SIZE + o_behind % STATE_PAGE_SIZE)[:, None] * (2 * STRIDE)
        o_now = (i_token - o_back).to(tl.int64)[:, None]
        # [ROWS, CHANNELS]
        m_load = m_row[:, None] & (o_width < WIDTH)[None, :]
        o_channel = (WINDOWS - 1 - o_back // RATIO)[:, None] * WIDTH + o_width[None, :]
        p_kv_row = tl.where(m_now[:, None], p_kv + o_now * stride_kv, p_state + o_then) + o_channel
        p_score_row = tl.where(m_now[:, None], p_score + o_now * stride_score, p_state + o_then + STRIDE) + o_channel
        p_ape_row = p_ape + (o_behind % RATIO)[:, None] * STRIDE + o_channel
        b_score = tl.load(p_score_row, mask=m_load, other=0.0)
        b_score += tl.load(p_ape_row, mask=m_load & m_now[:, None], other=0.0)
        b_kv = tl.load(p_kv_row, mask=m_load, other=0.0)
        b_score = tl.where(m_row[:, None], b_score, -float("inf"))

        b_new = tl.maximum(b_highest, tl.max(b_score, 0))
        b_pivot = tl.where(b_new == -float("inf"), 0.0, b_new)
        b_rescale = tl.exp(b_highest - b_pivot)
        b_weight = tl.exp(b_score - b_pivot[None, :])
        b_total = b_total * b_rescale + tl.sum(b_weight, 0)
        b_sum = b_sum * b_rescale + tl.sum(b_weight * b_kv, 0)
        b_highest = b_new
    return tl.where(o_width < WIDTH, b_sum / b_total, 0.0)


@triton.jit
def finish_factors(p_norm, p_cos, p_sin, i_position, WIDTH: tl.constexpr, ROTATED: tl.constexpr, BLOCK: tl.constexpr):
    """What `finished` needs, apart so that it can be loaded early."""
    o_channel = tl.arange(0, BLOCK)
    b_cos, b_sin = angles(p_cos, p_sin, i_position, WIDTH, ROTATED, BLOCK)
    return tl.load(p_norm + o_channel, mask=o_channel < WIDTH, other=0.0), b_cos, b_sin


@triton.jit
def finished(b_entry, factors, eps, WIDTH: tl.constexpr, ROTATED: tl.constexpr):
    """b_entry float32 [BLOCK], normed and rotated."""
    b_norm, b_cos, b_sin = factors
    b_entry = b_entry * tl.rsqrt(tl.sum(b_entry * b_entry, 0) / WIDTH + eps) * b_norm.to(tl.float32)
    return tl.reshape(turned(b_entry[None, :], b_cos, b_sin, WIDTH, ROTATED), [b_entry.shape[0]])
