"""Pooled entries on their way to the cache, inside a kernel: normed, rotated, inserted."""

import triton
import triton.language as tl

from kernels.insert import insert
from kernels.overlap import wait_for_inputs
from kernels.rotary import angles, turned

LARGEST = tl.constexpr(2**31 - 1)


@triton.jit
def factors_of(outputs, p_cos, p_sin, i_position, WIDTH: tl.constexpr, ROTATED: tl.constexpr, BLOCK: tl.constexpr):
    """What `finish` needs, apart so that it can be loaded early. i_position: that of the window's first token."""
    o_channel = tl.arange(0, BLOCK)
    b_cos, b_sin = angles(p_cos, p_sin, i_position, WIDTH, ROTATED, BLOCK)
    return tl.load(outputs[0] + o_channel, mask=o_channel < WIDTH, other=0.0), b_cos, b_sin


@triton.jit
def finish(
    b_entry,
    factors,
    eps,
    p_cache,
    i_slot,
    WIDTH: tl.constexpr,
    ROTATED: tl.constexpr,
    NOPE: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    PAGE_STRIDE: tl.constexpr,
):
    """b_entry float32 [BLOCK], zero from WIDTH on."""
    b_norm, b_cos, b_sin = factors
    b_entry = b_entry * tl.rsqrt(tl.sum(b_entry * b_entry, 0) / WIDTH + eps) * b_norm.to(tl.float32)
    b_entry = tl.reshape(turned(b_entry[None, :], b_cos, b_sin, WIDTH, ROTATED), [b_entry.shape[0]])
    insert(b_entry, p_cache, i_slot, WIDTH, NOPE, PAGE_SIZE, PAGE_STRIDE)


@triton.jit
def deliver(
    b_entry,
    outputs,
    factors,
    eps,
    i_token,
    i_slot,
    i_channel,
    WIDTH: tl.constexpr,
    ROTATED: tl.constexpr,
    NOPE: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    PAGE_STRIDE: tl.constexpr,
):
    """The entry that i_token closes: to the cache, or, where other programs have its other channels, to the pieces."""
    _, p_cache, p_pieces = outputs
    if p_pieces is None:
        finish(b_entry, factors, eps, p_cache, i_slot, WIDTH, ROTATED, NOPE, PAGE_SIZE, PAGE_STRIDE)
    else:
        o_channel = i_channel + tl.arange(0, b_entry.shape[0])
        tl.store(p_pieces + i_token.to(tl.int64) * WIDTH + o_channel, b_entry, mask=o_channel < WIDTH)


@triton.jit
def closing_of(i_first, i_stop, p_slots, p_valid, TOKENS: tl.constexpr):
    """Tokens [i_first, i_stop), TOKENS at most, and which of them close a window."""
    o_token = i_first + tl.arange(0, TOKENS)
    m_token = o_token < i_stop
    b_slot = tl.load(p_slots + o_token, mask=m_token, other=-1)
    return o_token, (b_slot >= 0) & (tl.load(p_valid + o_token, mask=m_token, other=0) != 0)


@triton.jit
def first_of(o_token, m_token):
    """The first token of those marked, and the mark taken off it."""
    i_token = tl.min(tl.where(m_token, o_token, LARGEST), 0)
    return i_token, m_token & (o_token != i_token)


@triton.jit
def finish_piece(
    outputs,
    i_token,
    i_slot,
    i_position,
    closes,
    p_cos,
    p_sin,
    eps,
    WIDTH: tl.constexpr,
    RATIO: tl.constexpr,
    ROTATED: tl.constexpr,
    NOPE: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    PAGE_STRIDE: tl.constexpr,
):
    """All is loaded before it is known whether there is an entry: one trip to memory less."""
    BLOCK: tl.constexpr = triton.next_power_of_2(WIDTH)
    o_channel = tl.arange(0, BLOCK)
    p_piece = outputs[2] + i_token.to(tl.int64) * WIDTH + o_channel
    b_entry = tl.load(p_piece, mask=o_channel < WIDTH, other=0.0)
    factors = factors_of(outputs, p_cos, p_sin, tl.maximum(i_position + 1 - RATIO, 0), WIDTH, ROTATED, BLOCK)
    if closes:
        finish(b_entry, factors, eps, outputs[1], i_slot, WIDTH, ROTATED, NOPE, PAGE_SIZE, PAGE_STRIDE)


@triton.jit(do_not_specialize=["tokens"])
def finish_kernel(
    streams,
    p_positions,
    p_valid,
    p_slots,
    p_cos,
    p_sin,
    eps,
    tokens,
    WIDTHS: tl.constexpr,
    RATIO: tl.constexpr,
    ROTATED: tl.constexpr,
    NOPES: tl.constexpr,
    PAGE_SIZES: tl.constexpr,
    PAGE_STRIDES: tl.constexpr,
    TOKENS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Entries that several programs pooled, by channels."""
    wait_for_inputs(OVERLAP)
    for i in tl.static_range(len(WIDTHS)):
        if tl.program_id(1) == i:
            o_token, m_closing = closing_of(tl.program_id(0) * TOKENS, tokens, p_slots, p_valid, TOKENS)
            count = 1
            if TOKENS > 1:
                count = tl.sum(m_closing.to(tl.int32), 0)
            for _ in range(count):
                i_token = tl.program_id(0)
                closes = tl.load(p_valid + i_token) != 0
                if TOKENS > 1:
                    i_token, m_closing = first_of(o_token, m_closing)
                    closes = True
                i_slot = tl.load(p_slots + i_token)
                finish_piece(
                    *(streams[i][1], i_token, i_slot, tl.load(p_positions + i_token), closes & (i_slot >= 0)),
                    *(p_cos, p_sin, eps, WIDTHS[i], RATIO, ROTATED, NOPES[i], PAGE_SIZES[i], PAGE_STRIDES[i]),
                )
