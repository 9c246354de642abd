"""Rotary position embedding on interleaved pairs (2i, 2i + 1) of the last channels, with YaRN."""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Yarn(Protocol):
    factor: float
    original_length: int
    beta_fast: float
    beta_slow: float


@dataclass(frozen=True)
class Rope:
    """cos, sin float32 [positions, E / 2]."""

    cos: Tensor
    sin: Tensor


def table(theta: float, dim: int, length: int, yarn: Yarn | None = None, device: str = "cpu") -> Rope:
    """Angles of positions [0, length) for `dim` rotated channels, in float64, stored as float32. No mscale."""
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies(theta, dim, yarn)
    return Rope(angles.cos().float().to(device), angles.sin().float().to(device))


def frequencies(theta: float, dim: int, yarn: Yarn | None = None) -> Tensor:
    """float64 [dim / 2], radians per position. YaRN (arXiv 2309.00071): slow pairs are divided by its factor."""
    plain = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if yarn is None:
        return plain
    low = max(math.floor(_pair_of(yarn.beta_fast, theta, dim, yarn.original_length)), 0)
    high = min(math.ceil(_pair_of(yarn.beta_slow, theta, dim, yarn.original_length)), dim - 1)
    ramp = ((torch.arange(dim // 2, dtype=torch.float64) - low) / max(high - low, 1e-3)).clamp(0, 1)
    return plain * (ramp / yarn.factor + 1 - ramp)


def _pair_of(turns: float, theta: float, dim: int, original_length: int) -> float:
    """The pair, a real number, that makes so many turns within the original length."""
    return dim * math.log(original_length / (2 * math.pi * turns)) / (2 * math.log(theta))


def rotate(x: Tensor, positions: Tensor, rope: Rope, inverse: bool = False) -> Tensor:
    """x [T, ..., d] turned at positions int [T] (inverse: turned back): only the last E of d channels change.

    Float32 inside, returns x's dtype.
    """
    half = rope.cos.shape[1]
    shape = (x.shape[0], *[1] * (x.dim() - 2), half)
    cos = rope.cos[positions.long()].view(shape)
    sin = rope.sin[positions.long()].view(shape)
    if inverse:
        sin = -sin
    even, odd = x[..., -2 * half :].float().unflatten(-1, (half, 2)).unbind(-1)
    turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)
    return torch.cat((x[..., : -2 * half], turned.to(x.dtype)), -1)
