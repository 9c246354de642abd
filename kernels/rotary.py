"""Rotary position embedding inside a kernel."""

import triton
import triton.language as tl


@triton.jit
def angles(p_cos, p_sin, i_position, WIDTH: tl.constexpr, ROTATED: tl.constexpr, BLOCK: tl.constexpr):
    """cos and sin float32 [BLOCK // 2] of every pair of channels: 1 and 0 for those that do not turn. ROTATED > 0."""
    o_angle = tl.arange(0, BLOCK // 2) - (WIDTH - ROTATED) // 2
    m_turned = (o_angle >= 0) & (o_angle < ROTATED // 2)
    o_angle += i_position.to(tl.int64) * (ROTATED // 2)
    b_cos = tl.load(p_cos + o_angle, mask=m_turned, other=1.0)
    return b_cos, tl.load(p_sin + o_angle, mask=m_turned, other=0.0)


@triton.jit
def turned(b_x, b_cos, b_sin, WIDTH: tl.constexpr, ROTATED: tl.constexpr):
    """b_x float32 [ROWS, BLOCK], its first WIDTH channels used, turned as `kernels.rope.rotate` does."""
    ROWS: tl.constexpr = b_x.shape[0]
    BLOCK: tl.constexpr = b_x.shape[1]
    o_pair = tl.arange(0, BLOCK // 2)
    m_turned = ((o_pair >= (WIDTH - ROTATED) // 2) & (o_pair < WIDTH // 2))[None, :]
    # [ROWS, BLOCK // 2]
    b_even, b_odd = tl.split(tl.reshape(b_x, [ROWS, BLOCK // 2, 2]))
    b_new_even = tl.where(m_turned, b_even * b_cos[None, :] - b_odd * b_sin[None, :], b_even)
    b_new_odd = tl.where(m_turned, b_odd * b_cos[None, :] + b_even * b_sin[None, :], b_odd)
    return tl.reshape(tl.join(b_new_even, b_new_odd), [ROWS, BLOCK])


def refusal(width: int, rotated: int) -> str | None:
    """Why a head of `width` channels, the last `rotated` of them turned, cannot be taken."""
    if (width - rotated) % 2:
        return f"{width} channels of which {rotated} turn: pairs would begin at an odd channel; use an even difference"
    return None
