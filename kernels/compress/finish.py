"""Pooled entries on their way to the cache, inside a kernel: normed, rotated, inserted.

Where programs pool an entry in pieces, each stores its piece and draws a ticket; who draws the last has them all.
"""

import triton
import triton.language as tl

from kernels.insert import insert
from kernels.rotary import angles, turned
from kernels.ticket import draws_last


@triton.jit
def factors_of(outputs, p_cos, p_sin, i_position, WIDTH: tl.constexpr, ROTATED: tl.constexpr):
    """What `finish` needs, apart so that it can be loaded early. i_position: that of the window's first token."""
    BLOCK: tl.constexpr = triton.next_power_of_2(WIDTH)
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
def fetch_ticket(outputs, i_slot):
    """Start to bring the ticket to L2, where there is one; volatile, or a load that nobody uses is dropped."""
    pieces = outputs[2]
    if pieces is not None:
        tl.load(pieces[1] + i_slot, mask=i_slot >= 0, volatile=True)


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
    """The entry that i_token closes, or the piece from i_channel on."""
    _, p_cache, pieces = outputs
    if pieces is None:
        finish(b_entry, factors, eps, p_cache, i_slot, WIDTH, ROTATED, NOPE, PAGE_SIZE, PAGE_STRIDE)
    else:
        p_pieces, p_tickets = pieces
        CHANNELS: tl.constexpr = b_entry.shape[0]
        p_entry = p_pieces + i_token.to(tl.int64) * WIDTH
        o_channel = i_channel + tl.arange(0, CHANNELS)
        tl.store(p_entry + o_channel, b_entry, mask=o_channel < WIDTH)
        if draws_last(p_tickets + i_slot, tl.cdiv(WIDTH, CHANNELS)):
            o_width = tl.arange(0, triton.next_power_of_2(WIDTH))
            b_whole = tl.load(p_entry + o_width, mask=o_width < WIDTH, other=0.0, cache_modifier=".cg")  # not L1's
            finish(b_whole, factors, eps, p_cache, i_slot, WIDTH, ROTATED, NOPE, PAGE_SIZE, PAGE_STRIDE)
