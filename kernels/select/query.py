"""The index query in the number format that its cache asks for."""

from functools import singledispatch

import torch
from torch import Tensor

from kernels.layouts import Cache, FP8IndexCache, quantise


@singledispatch
def query_for(cache: Cache, q: Tensor) -> tuple[Tensor, Tensor]:
    """q [S, I, X] after RoPE -> values [S, I, X] in q's dtype and float32 scales [S, I], q = values * scales."""
    return q, torch.ones(q.shape[:-1], device=q.device)


@query_for.register
def _(cache: FP8IndexCache, q: Tensor) -> tuple[Tensor, Tensor]:
    values, scales = quantise(q, q.shape[-1])
    return values.to(q.dtype), scales.squeeze(-1)
