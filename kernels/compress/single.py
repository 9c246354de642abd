"""Tokens one by one, as in a decode step: a program stores a token's row, or pools the window that it closes."""

import triton
import triton.language as tl

from kernels.compress.finish import deliver, factors_of, fetch_ticket
from kernels.compress.pool import pool_window, rows_held
from kernels.compress.store import copy_rows
from kernels.overlap import wait_for_inputs


@triton.jit
def close_window(
    inputs,
    outputs,
    step,
    i_token,
    i_channel,
    p_slots,
    p_cos,
    p_sin,
    eps,
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
    """The entry of the window that i_token closes, if it closes one; channels from i_channel on."""
    p_positions, p_request, p_valid = step
    i_slot = tl.load(p_slots + i_token)
    i_position = tl.load(p_positions + i_token)
    i_request = tl.load(p_request + i_token)
    i_valid = tl.load(p_valid + i_token)
    i_held = rows_held(step, i_token, i_position, i_request, triton.next_power_of_2(WINDOWS * RATIO))
    if (i_slot >= 0) & (i_valid != 0):
        fetch_ticket(outputs, i_slot)
        p_table = p_state_table + i_request.to(tl.int64) * stride_table
        factors = factors_of(outputs, p_cos, p_sin, i_position + 1 - RATIO, WIDTH, ROTATED)
        b_entry = pool_window(
            *(inputs, p_table, i_token, i_position, i_held, i_channel),
            *(WIDTH, WINDOWS, RATIO, STATE_PAGE_SIZE, ROWS, CHANNELS),
        )
        deliver(
            *(b_entry, outputs, factors, eps, i_token, i_slot, i_channel),
            *(WIDTH, ROTATED, NOPE, PAGE_SIZE, PAGE_STRIDE),
        )


@triton.jit(do_not_specialize=["tokens", "stride_table"])
def tokens_kernel(
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
    """SPLITS programs pool, one stores."""
    wait_for_inputs(OVERLAP)
    i_token = tl.program_id(0) // (SPLITS + 1)
    i_part = tl.program_id(0) % (SPLITS + 1)
    step = (p_positions, p_request, p_valid)
    for i in tl.static_range(len(WIDTHS)):
        if tl.program_id(1) == i:
            inputs, outputs = streams[i]
            STRIDE: tl.constexpr = WIDTHS[i] * WINDOWS[i]
            if i_part == SPLITS:
                copy_rows(
                    *(inputs, i_token, i_token + 1, 0, p_positions, p_valid, p_state_slots),
                    *(STRIDE, RATIO, 1, triton.next_power_of_2(STRIDE)),
                )
            elif i_part * CHANNELS[i] < WIDTHS[i]:
                close_window(
                    *(inputs, outputs, step, i_token, i_part * CHANNELS[i], p_slots, p_cos, p_sin, eps),
                    *(p_state_table, stride_table, WIDTHS[i], RATIO, ROTATED, NOPES[i], PAGE_SIZES[i]),
                    *(PAGE_STRIDES[i], WINDOWS[i], STATE_PAGE_SIZE, CHANNELS[i], ROWS[i]),
                )
