"""Whole windows: a program reads the rows of a window once, stores them, and pools them while it has them.

Program i takes the window that token i * RATIO lies in, if all its tokens are rows of the step: of a long run of tokens
that is every window. Tokens that are left, at the ends of a run, are stored and pooled one by one.
"""

import triton
import triton.language as tl

from kernels.compress.finish import deliver, factors_of, fetch_ticket
from kernels.compress.pool import rows_held, rows_of_window, sums_of, sums_with
from kernels.compress.single import close_window
from kernels.compress.store import ape_of, copy_rows, rows_of_step, store_rows
from kernels.overlap import wait_for_inputs

LARGEST = tl.constexpr(2**31 - 1)


@triton.jit
def holds(step, i_token, tokens, i_position, i_request):
    """Whether a row of the step is that token of that request."""
    p_positions, p_request, p_valid = step
    inside = (i_token >= 0) & (i_token < tokens)
    same = tl.load(p_positions + i_token, mask=inside, other=-1) == i_position
    same &= tl.load(p_request + i_token, mask=inside, other=-1) == i_request
    return same & (tl.load(p_valid + i_token, mask=inside, other=0) != 0)


@triton.jit
def window_at(step, i_token, tokens, RATIO: tl.constexpr):
    """The window that a token lies in: first row, its position, request, and whether all are rows of the step."""
    p_positions, p_request, _ = step
    inside = i_token < tokens
    i_position = tl.load(p_positions + i_token, mask=inside, other=0)
    i_request = tl.load(p_request + i_token, mask=inside, other=-1)
    i_start = i_token - i_position % RATIO
    i_position -= i_position % RATIO
    is_whole = holds(step, i_start, tokens, i_position, i_request)
    is_whole &= holds(step, i_start + RATIO - 1, tokens, i_position + RATIO - 1, i_request)
    return i_start, i_position, i_request, is_whole & inside


@triton.jit
def mask_of(o_row, o_width, RATIO: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    """[ROWS, CHANNELS]; a constant where all rows and channels are those of a window."""
    if ROWS == RATIO and WIDTH % CHANNELS == 0:
        return tl.full([ROWS, CHANNELS], True, tl.int1)
    else:
        return (o_row < RATIO)[:, None] & (o_width < WIDTH)[None, :]


@triton.jit
def pool_whole(
    inputs,
    p_table,
    step,
    i_start,
    i_position,
    i_request,
    is_preceded,
    i_channel,
    b_slot,
    WIDTH: tl.constexpr,
    WINDOWS: tl.constexpr,
    RATIO: tl.constexpr,
    STATE_PAGE_SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """float32 [CHANNELS] from i_channel on; stores what the window's own rows, at slots b_slot, give to it.

    is_preceded: the windows before it that are pooled too are rows of the step. Loads come before the first store,
    which none may pass.
    """
    BEFORE: tl.constexpr = (WINDOWS - 1) * RATIO
    o_row = tl.arange(0, ROWS)
    o_width = i_channel + tl.arange(0, CHANNELS)
    m_own = mask_of(o_row, o_width, RATIO, WIDTH, ROWS, CHANNELS)
    o_own = (BEFORE // RATIO * WIDTH + o_width)[None, :]
    b_own, b_score = rows_of_step(inputs, i_start, o_row, o_own, m_own)
    before = ()
    for f in tl.static_range(WINDOWS - 1):
        m_known = (o_row < RATIO) & (i_position >= BEFORE - f * RATIO)
        o_channel = (f * WIDTH + o_width)[None, :]
        if is_preceded:
            m_held = o_row < RATIO
            b_kv, b_before = rows_of_step(inputs, i_start - BEFORE + f * RATIO, o_row, o_channel, m_own)
        else:
            o_back = BEFORE - f * RATIO - o_row
            HELD: tl.constexpr = triton.next_power_of_2(BEFORE + 1)
            m_held = m_known & (o_back < rows_held(step, i_start, i_position, i_request, HELD))
            b_kv, b_before = rows_of_window(
                *(inputs, p_table, i_start, o_back, i_position, m_known, m_held, o_row * 0 + f, o_width),
                *(WIDTH, WINDOWS, STATE_PAGE_SIZE),
            )
        before += ((b_kv, tl.where(m_known[:, None], b_before, -float("inf")), m_held),)
    b_score += ape_of(inputs, o_row, o_own, m_own, WINDOWS * WIDTH)
    store_rows(inputs, b_slot, o_own, m_own, b_own, b_score, WINDOWS * WIDTH)
    if ROWS > RATIO:
        b_score = tl.where((o_row < RATIO)[:, None], b_score, -float("inf"))
    sums = sums_of(b_own, b_score)
    for f in tl.static_range(WINDOWS - 1):
        b_kv, b_score, m_held = before[f]
        m_ape = m_own & m_held[:, None]
        b_score += ape_of(inputs, o_row, (f * WIDTH + o_width)[None, :], m_ape, WINDOWS * WIDTH)
        sums = sums_with(sums, b_kv, b_score)
    return tl.where(o_width < WIDTH, sums[2] / sums[1], 0.0)


@triton.jit
def take_tokens(
    stream,
    step,
    i_first,
    i_stop,
    i_channel,
    p_slots,
    p_cos,
    p_sin,
    eps,
    p_state_slots,
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
):
    """Tokens [i_first, i_stop), RATIO at most, one by one."""
    inputs, outputs = stream
    p_positions, _, p_valid = step
    TOKENS: tl.constexpr = triton.next_power_of_2(RATIO)
    for f in tl.static_range(WINDOWS):
        copy_rows(
            *(inputs, i_first, i_stop, f * WIDTH + i_channel, p_positions, p_valid, p_state_slots),
            *(WINDOWS * WIDTH, RATIO, TOKENS, CHANNELS),
        )
    o_token = i_first + tl.arange(0, TOKENS)
    m_token = o_token < i_stop
    m_closing = tl.load(p_slots + o_token, mask=m_token, other=-1) >= 0
    m_closing &= tl.load(p_valid + o_token, mask=m_token, other=0) != 0
    for _ in range(tl.sum(m_closing.to(tl.int32), 0)):
        i_token = tl.min(tl.where(m_closing, o_token, LARGEST), 0)
        m_closing &= o_token != i_token
        close_window(
            *(inputs, outputs, step, i_token, i_channel, p_slots, p_cos, p_sin, eps),
            *(p_state_table, stride_table, WIDTH, RATIO, ROTATED, NOPE, PAGE_SIZE),
            *(PAGE_STRIDE, WINDOWS, STATE_PAGE_SIZE, CHANNELS, ROWS),
        )


@triton.jit(do_not_specialize=["tokens", "stride_table"])
def windows_kernel(
    streams,
    p_positions,
    p_valid,
    p_slots,
    p_cos,
    p_sin,
    eps,
    tokens,
    p_request,
    p_state_slots,
    p_state_table,
    stride_table,
    WIDTHS: tl.constexpr,
    RATIO: tl.constexpr,
    ROTATED: tl.constexpr,
    NOPES: tl.constexpr,
    PAGE_SIZES: tl.constexpr,
    PAGE_STRIDES: tl.constexpr,
    WINDOWS: tl.constexpr,
    STATE_PAGE_SIZE: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    SPLITS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Of one stream. ROWS: those that a program pools at once of the windows that are left."""
    wait_for_inputs(OVERLAP)
    step = (p_positions, p_request, p_valid)
    WIDTH: tl.constexpr = WIDTHS[0]
    TOKENS: tl.constexpr = triton.next_power_of_2(RATIO)
    BEFORE: tl.constexpr = (WINDOWS[0] - 1) * RATIO
    inputs, outputs = streams[0]
    i_chunk = tl.program_id(0) // SPLITS * RATIO
    i_channel = tl.program_id(0) % SPLITS * CHANNELS[0]
    i_start, i_position, i_request, is_whole = window_at(step, i_chunk, tokens, RATIO)
    i_left = i_chunk
    if is_whole:
        i_left = i_start + RATIO
        is_preceded = holds(step, i_start - BEFORE, tokens, i_position - BEFORE, i_request)
        i_slot = tl.load(p_slots + i_left - 1)
        fetch_ticket(outputs, i_slot)
        factors = factors_of(outputs, p_cos, p_sin, i_position, WIDTH, ROTATED)
        o_row = tl.arange(0, TOKENS)
        b_slot = tl.load(p_state_slots + i_start + o_row, mask=o_row < RATIO, other=-1)
        b_entry = pool_whole(
            *(inputs, p_state_table + i_request.to(tl.int64) * stride_table, step, i_start, i_position, i_request),
            *(is_preceded, i_channel, b_slot, WIDTH, WINDOWS[0], RATIO, STATE_PAGE_SIZE, TOKENS, CHANNELS[0]),
        )
        o_width = i_channel + tl.arange(0, CHANNELS[0])
        m_own = mask_of(o_row, o_width, RATIO, WIDTH, TOKENS, CHANNELS[0])
        later = ()
        for f in tl.static_range(BEFORE // RATIO):
            later += (rows_of_step(inputs, i_start, o_row, (f * WIDTH + o_width)[None, :], m_own),)
        if i_slot >= 0:
            deliver(
                *(b_entry, outputs, factors, eps, i_left - 1, i_slot, i_channel),
                *(WIDTH, ROTATED, NOPES[0], PAGE_SIZES[0], PAGE_STRIDES[0]),
            )
        for f in tl.static_range(BEFORE // RATIO):
            o_channel = (f * WIDTH + o_width)[None, :]
            b_score = later[f][1] + ape_of(inputs, o_row, o_channel, m_own, BEFORE // RATIO * WIDTH + WIDTH)
            store_rows(inputs, b_slot, o_channel, m_own, later[f][0], b_score, BEFORE // RATIO * WIDTH + WIDTH)
    i_stop = tl.minimum(i_chunk + RATIO, tokens)
    if i_left < i_stop:
        i_next, _, _, is_next = window_at(step, i_chunk + RATIO, tokens, RATIO)
        take_tokens(
            *(streams[0], step, i_left, tl.where(is_next, i_next, i_stop), i_channel, p_slots, p_cos, p_sin, eps),
            *(p_state_slots, p_state_table, stride_table, WIDTH, RATIO, ROTATED, NOPES[0], PAGE_SIZES[0]),
            *(PAGE_STRIDES[0], WINDOWS[0], STATE_PAGE_SIZE, CHANNELS[0], ROWS[0]),
        )
