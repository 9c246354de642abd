"""The score that parts the best k of a block of scores from the rest, found by counting."""

import triton
import triton.language as tl

NO_ENTRY = tl.constexpr(2**31 - 1)


@triton.jit
def search(b_score, count, k, FINISH: tl.constexpr):
    """low, high, above, between: `above` <= k scores are >= high, and `between` in [low, high) hold the rest of the k.

    There are at most FINISH between, or all of them equal low; none if above = k. Invariant: at least k scores are >=
    low, fewer than k are >= high. The first guess takes scores for normal; the others interpolate the logarithm of the
    count between the ends, where an end that stays loses weight (the Illinois method); each sixth halves the interval
    of keys, so that the number of passes is bounded. Two guesses in a row that part no scores mean few distinct ones:
    the next is the largest score below high.
    """
    low = _key(tl.min(tl.where(tl.arange(0, b_score.shape[0]) < count, b_score, float("inf")), 0))
    high = _key(tl.max(b_score, 0)) + 1
    at_least, above = count, count - count
    weight_low, weight_high = 1.0, 1.0
    idle, step = 0, 0
    while (at_least - above > FINISH) & (at_least != k) & (low + 1 < high):
        jump = idle == 2
        if jump:
            guess = _key(tl.max(tl.where(b_score >= _score(high), float("-inf"), b_score), 0))
        else:
            guess = _guess(low, high, at_least, above, k, weight_low, weight_high, step)
        found = _count(b_score >= _score(guess))
        idle = tl.where((found == at_least) | (found == above), tl.where(jump, 0, idle + 1), 0)
        enough = found >= k
        weight_low = tl.where(enough, 2.0, weight_low * 0.5)
        weight_high = tl.where(enough, weight_high * 0.5, 2.0)
        high = tl.where(enough, tl.where(jump, guess + 1, high), guess)
        low = tl.where(enough, guess, low)
        at_least = tl.where(enough, found, at_least)
        above = tl.where(enough, above, found)
        step += 1
    parted = at_least == k
    high, above = tl.where(parted, low, high), tl.where(parted, k, above)
    return _score(low), _score(high), above, at_least - above


@triton.jit
def _guess(low, high, at_least, above, k, weight_low, weight_high, step):
    wanted = _logarithm(k * 1.0)
    rise = (_logarithm(at_least + 0.5) - wanted) * tl.minimum(weight_low, 1.0)
    fall = (wanted - _logarithm(above + 0.5)) * tl.minimum(weight_high, 1.0)
    share = tl.minimum(tl.maximum(rise / (rise + fall), 0.01), 0.99)
    share = tl.where(step == 0, 0.5 + 0.5 * share, share)
    score = _score(low) + (_score(high) - _score(low)) * share
    middle = (low >> 1) + (high >> 1) + (low & high & 1)
    inside = (score > _score(low)) & (score < _score(high)) & (step % 6 != 5)
    return tl.minimum(tl.maximum(tl.where(inside, _key(score), middle), low + 1), high - 1)


@triton.jit
def _logarithm(x):
    """Linear between powers of two, in units of 2^-23."""
    return x.to(tl.int32, bitcast=True).to(tl.float32)


@triton.jit
def _count(m):
    """How many of a mask: fours in float, whose units are idle while others compare; 2^23 makes integers of them."""
    b_fours = tl.sum(tl.reshape(m.to(tl.float32), [m.shape[0] // 4, 4]), 1) + 8388608.0
    return tl.sum(b_fours.to(tl.int32, bitcast=True) & 7, 0)


@triton.jit
def bound(b_entry, room):
    """The entry below which `room` of these lie; there are more."""
    low, high = 0, tl.max(tl.where(b_entry == NO_ENTRY, 0, b_entry), 0) + 1
    while low < high:
        middle = (low + high) // 2
        enough = tl.sum((b_entry < middle).to(tl.int32), 0) >= room
        low, high = tl.where(enough, low, middle + 1), tl.where(enough, middle, high)
    return low


@triton.jit
def _key(score):
    """An int32 that orders as the score does: its bits, those of the magnitude flipped below zero."""
    return _flipped(score.to(tl.int32, bitcast=True))


@triton.jit
def _score(key):
    return _flipped(key).to(tl.float32, bitcast=True)


@triton.jit
def _flipped(bits):
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)
