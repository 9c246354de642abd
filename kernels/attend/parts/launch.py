"""What the Hopper kernels are launched with, and what they refuse."""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.experimental.gluon.language as gl
from torch import Tensor
from triton.experimental import gluon

from kernels.attend.parts.combine import combine, empty_parts
from kernels.attend.parts.splits import choose_splits
from kernels.contracts import Keys
from kernels.layouts import FP8DSMLACache, PlainCache

LOG2E: gl.constexpr = gl.constexpr(1.4426950408889634)
ROPE = 64
WIDTHS = (128, 256, 512)
BLOCK_N = 64
START_TILES = 2.0  # what an item takes beside its tiles, in tiles of keys
# One compiled kernel for every step: no length, batch size or slice of a table decides.
UNSPECIALISED = ("items", "T", "H", "splits", "width0", "width1", "stride_slots0", "stride_slots1")
UNALIGNED = ("p_slots0", "p_slots1", "p_lengths0", "p_lengths1")


@gluon.jit
def let_next_start():
    """The next launch may begin, if it was made to; it waits for this one where it needs to."""
    gl.inline_asm_elementwise(
        "griddepcontrol.launch_dependents; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1
    )


def refuse_shape(model: Any) -> str | None:
    if model.rope_dim == ROPE and model.head_dim in WIDTHS:
        return None
    return f"heads of {WIDTHS} channels, {ROPE} of them rotated, are needed; got {model.head_dim}, {model.rope_dim}"


def launch(
    kernel: Any,
    q: Tensor,
    keys: Sequence[Keys],
    sink: Tensor | None,
    scale: float,
    block: int,
    splits: int | None,
    combine_tiles: float,
    early: bool,
    **options: int,
) -> Tensor:
    """Runs a kernel of `block` heads a program over all tokens, and combines if the keys are split.

    splits None: chosen, where combining takes as long as combine_tiles tiles of keys. One source stands for two: the
    second has no tiles. Raises ValueError for what the Hopper kernels cannot read.
    """
    tokens, heads, width = q.shape
    _refuse(q, keys)
    q, out = q.contiguous(), torch.empty_like(q)
    if not tokens:
        return out
    items = tokens * triton.cdiv(heads, block)
    processors = torch.cuda.get_device_properties(q.device).multi_processor_count
    if splits is None:
        splits = choose_splits(items, tiles_of(keys), processors, START_TILES, combine_tiles)
    parts, lse = empty_parts(splits, q) if splits > 1 else (out, out)
    first, second = keys[0], keys[-1]
    kernel[(min(items * splits, processors),)](
        q,
        parts,
        lse,
        sink,
        items * splits,
        first.cache.data,
        second.cache.data,
        first.slots,
        second.slots,
        first.lengths,
        second.lengths,
        scale * LOG2E.value,
        tokens,
        heads,
        splits,
        first.slots.shape[1],
        second.slots.shape[1],
        first.slots.stride(0),
        second.slots.stride(0),
        D=width,
        FP8=isinstance(first.cache, FP8DSMLACache),
        PAGE0=first.cache.page_size,
        PAGE1=second.cache.page_size,
        STRIDE0=first.cache.data.stride(0),
        STRIDE1=second.cache.data.stride(0),
        SOURCES=len(keys),
        SINK=sink is not None,
        SPLIT=splits > 1,
        **options,
    )
    if splits > 1:
        combine(parts, lse, sink, out, early)
    return out


def tiles_of(keys: Sequence[Keys]) -> int:
    """The most tiles that a token has."""
    return sum(triton.cdiv(source.slots.shape[1], BLOCK_N) for source in keys)


def _refuse(q: Tensor, keys: Sequence[Keys]) -> None:
    caches = [source.cache for source in keys]
    fp8 = all(isinstance(cache, FP8DSMLACache) and cache.rope == ROPE for cache in caches)
    bf16 = all(isinstance(cache, PlainCache) and cache.data.dtype == q.dtype for cache in caches)
    if q.dtype != torch.bfloat16 or q.shape[2] not in WIDTHS or not 1 <= len(keys) <= 2 or not (fp8 or bf16):
        names = ", ".join(type(cache).__name__ for cache in caches)
        raise ValueError(
            f"attend on Hopper: q is {q.dtype} of {q.shape[2]} channels over {names}; bf16 of {WIDTHS} channels over "
            "one or two caches is needed, all fp8_ds_mla or all bf16; kernels.attend.decode_split takes any"
        )
    for source in keys:
        assert source.cache.width == q.shape[2] and source.slots.stride(1) == 1 and source.lengths.is_contiguous()
