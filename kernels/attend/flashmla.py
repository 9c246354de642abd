"""FlashMLA as vLLM uses it: decode reads the fp8_ds_mla caches, prefill reads rows that were gathered in bf16."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from kernels import peers
from kernels.contracts import Keys
from kernels.layouts import FP8DSMLACache, PlainCache

HEADS = (64, 128)  # that it is compiled for
WIDTH, ROPE = 512, 64
ROW_BYTES = 584
Source = tuple[Tensor, Tensor, Tensor]  # cache, slots, lengths
Plan = tuple[Tensor | None, Tensor | None]
DECODE_COLUMNS, PREFILL_COLUMNS = 64, 128  # a token's keys come in multiples of these


@dataclass(frozen=True)
class Attend:
    """Padding to 64 or 128 heads is part of the call.

    `plan`: how decode splits the keys. vLLM plans once for all layers of a step, from its lengths, in 28 us or
    more. columns: once for all steps of a shape, which attend all columns, those without a key masked in a launch of
    ours. lengths: in every call. auto: columns, unless there are more than `most_columns`.
    One plain bf16 cache is a workspace: slots beyond a token's length must be -1 there.
    """

    device: ClassVar[str] = "cuda"
    plan: Literal["auto", "columns", "lengths"] = "auto"
    most_columns: int = 2048

    def missing(self) -> str | None:
        return peers.absent("FlashMLA", peers.FLASHMLA)

    def refuses(self, model: Any) -> str | None:
        if (model.head_dim, model.rope_dim) == (WIDTH, ROPE) and model.heads <= HEADS[-1]:
            return None
        got = f"{model.heads} heads of {model.head_dim}, {model.rope_dim} rotated"
        return f"FlashMLA takes at most {HEADS[-1]} heads of {WIDTH} channels, {ROPE} rotated; got {got}"

    def __call__(self, q: Tensor, keys: Sequence[Keys], sink: Tensor | None, scale: float) -> Tensor:
        """q is bf16, the caches are one or two fp8_ds_mla, or one plain bf16."""
        tokens, heads, _ = q.shape
        if not tokens:
            return torch.empty_like(q)
        padded = next(size for size in HEADS if heads <= size)
        q, sink = _widened(q, 1, padded), None if sink is None else _widened(sink, 0, padded)
        if _gathered(keys):
            return prefill(q, keys[0], sink, scale)[:, :heads]
        paged = [_paged(k.cache) for k in keys]
        if self._plans_anew(keys):
            slots = [_columns(k.slots, DECODE_COLUMNS) for k in keys]
            sources = list(zip(paged, slots, [k.lengths for k in keys], strict=True))
            return decode(q, sources, sink, scale, (None, None))[0][:, :heads]
        slots = masked(keys)
        shapes = [(rows.shape[1], columns.shape[2]) for rows, columns in zip(paged, slots, strict=True)]
        lengths, known = _plan(tokens, padded, q.device, *shapes)
        return decode(q, list(zip(paged, slots, lengths, strict=True)), sink, scale, known)[0][:, :heads]

    def _plans_anew(self, keys: Sequence[Keys]) -> bool:
        if self.plan == "auto":
            return sum(k.slots.shape[1] for k in keys) > self.most_columns
        return self.plan == "lengths"


def decode(q: Tensor, sources: Sequence[Source], sink: Tensor | None, scale: float, plan: Plan) -> tuple[Tensor, Plan]:
    """The heads' outputs, and the plan: the one that came, or a new one where none did."""
    main, extra = sources[0], sources[1] if len(sources) == 2 else (None, None, None)
    op = peers.flashmla().sparse_decode_fwd
    out, _, *made = op(q[:, None], *main, sink, *plan, *extra, WIDTH, scale, None)
    return out[:, 0], (made[0], made[1])


@cache
def _plan(tokens: int, heads: int, device: torch.device, *shapes: tuple[int, int]) -> tuple[list[Tensor], Plan]:
    """`shapes`: rows of a page and columns of each source -> the sources' lengths, all columns, and the plan for them.

    Every step of these shapes reads the same tensors: a plan fits no other lengths than those that it was made from.
    """
    lengths = [torch.full((tokens,), columns, dtype=torch.int32, device=device) for _, columns in shapes]
    sources = []
    for (page_size, columns), length in zip(shapes, lengths, strict=True):
        rows = FP8DSMLACache.empty(1, page_size, WIDTH - ROPE, ROPE, device)
        sources.append((_paged(rows), length.new_full((tokens, 1, columns), -1), length))
    q = torch.zeros((tokens, heads, WIDTH), dtype=torch.bfloat16, device=device)
    return lengths, decode(q, sources, None, 1.0, (None, None))[1]


def masked(keys: Sequence[Keys]) -> list[Tensor]:
    """Slots [T, 1, columns] of each source, -1 beyond a token's length, columns rounded up."""
    first, second = keys[0], keys[-1]
    tokens = len(first.slots)
    sizes = [-(-k.slots.shape[1] // DECODE_COLUMNS) * DECODE_COLUMNS for k in keys]
    slots = [first.slots.new_empty((tokens, 1, size)) for size in sizes]
    _mask[(tokens, len(keys))](
        *(first.slots, second.slots, first.lengths, second.lengths, slots[0], slots[-1]),
        *(first.slots.stride(0), second.slots.stride(0), first.slots.shape[1], second.slots.shape[1]),
        *(sizes[0], sizes[-1]),
        BLOCK=512,
        num_warps=2,
    )
    return slots


def prefill(q: Tensor, source: Keys, sink: Tensor | None, scale: float) -> Tensor:
    rows, slots = source.cache.data.view(-1, 1, WIDTH), _columns(source.slots, PREFILL_COLUMNS)
    return peers.flashmla().sparse_prefill_fwd(q, rows, slots, scale, WIDTH, sink, source.lengths, None)[0]


def _gathered(keys: Sequence[Keys]) -> bool:
    """Whether the only source is gathered bf16, and not one or two fp8_ds_mla caches. ValueError for all else."""
    caches = [source.cache for source in keys]
    if len(caches) <= 2 and all(isinstance(cache, FP8DSMLACache) for cache in caches):
        return False
    if len(caches) == 1 and isinstance(caches[0], PlainCache) and caches[0].data.dtype == torch.bfloat16:
        return True
    raise ValueError("FlashMLA reads one or two fp8_ds_mla caches, or gathered bf16; use engine.kv_layout=fp8_ds_mla")


def _widened(x: Tensor, dim: int, size: int) -> Tensor:
    """Heads beyond x's are computed and thrown away: what they hold does not matter."""
    if x.shape[dim] == size:
        return x.contiguous()
    wide = x.new_empty((*x.shape[:dim], size, *x.shape[dim + 1 :]))
    wide.narrow(dim, 0, x.shape[dim]).copy_(x)
    return wide


def _columns(slots: Tensor, multiple: int) -> Tensor:
    lacking = -slots.shape[1] % multiple
    return (pad(slots, (0, lacking), value=-1) if lacking else slots)[:, None]


def _paged(cache: FP8DSMLACache) -> Tensor:
    pages, page_bytes = cache.data.shape
    return cache.data.as_strided((pages, cache.page_size, 1, ROW_BYTES), (page_bytes, ROW_BYTES, ROW_BYTES, 1))


@triton.jit(do_not_specialize=["stride", "other_stride", "width", "other_width", "size", "other_size"])
def _mask(
    p_slots,
    p_other_slots,
    p_lengths,
    p_other_lengths,
    p_out,
    p_other_out,
    stride,
    other_stride,
    width,
    other_width,
    size,
    other_size,
    BLOCK: tl.constexpr,
):
    if tl.program_id(1) == 0:
        _mask_row(p_slots, p_lengths, p_out, stride, width, size, BLOCK)
    else:
        _mask_row(p_other_slots, p_other_lengths, p_other_out, other_stride, other_width, other_size, BLOCK)


@triton.jit
def _mask_row(p_slots, p_lengths, p_out, stride, width, size, BLOCK: tl.constexpr):
    i_token = tl.program_id(0).to(tl.int64)
    end = tl.minimum(tl.load(p_lengths + i_token), width)
    for start in range(0, size, BLOCK):
        o = start + tl.arange(0, BLOCK)
        b_slot = tl.load(p_slots + i_token * stride + o, mask=o < end, other=-1)
        tl.store(p_out + i_token * size + o, b_slot, mask=o < size)
