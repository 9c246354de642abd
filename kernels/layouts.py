"""Paged caches: how one row lies in memory. A slot is page * page_size + row; a negative slot is no place.

The two fp8 layouts are vLLM's and FlashMLA's: planes inside a page, first the values of all rows, then their scales.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

E4M3_MAX = 448.0
SMALLEST_AMAX = 1e-4
SCALE_GROUP = 64  # channels that share a scale in fp8_ds_mla
PAGE_ALIGNMENT = 576  # bytes, of an fp8 index page


class Cache(Protocol):
    """Rows of `width` channels in pages of `page_size` rows."""

    data: Tensor
    page_size: int
    width: int

    def insert(self, slots: Tensor, rows: Tensor) -> None:
        """slots int [N], rows [N, width]. A row whose slot is negative is not written."""

    def gather(self, slots: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """slots int [...] -> [..., width]. A negative slot gives zeros, whatever the cache holds."""


@dataclass(frozen=True)
class PlainCache:
    data: Tensor  # bf16 or float32 [pages, page_size, width]

    @classmethod
    def empty(cls, pages: int, page_size: int, width: int, dtype: torch.dtype, device: str = "cpu") -> "PlainCache":
        return cls(torch.zeros(pages, page_size, width, dtype=dtype, device=device))

    @property
    def page_size(self) -> int:
        return self.data.shape[1]

    @property
    def width(self) -> int:
        return self.data.shape[2]

    def insert(self, slots: Tensor, rows: Tensor) -> None:
        live = slots >= 0
        self.data.view(-1, self.width)[slots[live].long()] = rows[live].to(self.data.dtype)

    def gather(self, slots: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        rows = self.data.view(-1, self.width).index_select(0, slots.flatten().clamp(min=0).long())
        return _zero_where_no_place(rows.to(dtype), slots)


@dataclass(frozen=True)
class FP8DSMLACache:
    """`fp8_ds_mla`: 584 bytes a row at the real dimensions. `nope` channels are e4m3, `rope` channels bf16.

    A page holds page_size data rows (nope + 2 * rope bytes), page_size scale rows (8 bytes: one UE8M0 byte per 64 nope
    channels, the rest 0), then padding to a multiple of the data row.
    """

    data: Tensor  # uint8 [pages, page_bytes]
    page_size: int
    nope: int
    rope: int

    def __post_init__(self) -> None:
        if self.nope < SCALE_GROUP or self.nope % SCALE_GROUP:
            raise ValueError(
                f"fp8_ds_mla: {self.nope} channels without position; a positive multiple of {SCALE_GROUP} is needed, "
                "or use the plain layout"
            )

    @classmethod
    def empty(cls, pages: int, page_size: int, nope: int, rope: int, device: str = "cpu") -> "FP8DSMLACache":
        data_row, scale_row = nope + 2 * rope, _scale_row_bytes(nope)
        page_bytes = _round_up(page_size * (data_row + scale_row), data_row)
        return cls(torch.zeros(pages, page_bytes, dtype=torch.uint8, device=device), page_size, nope, rope)

    @property
    def width(self) -> int:
        return self.nope + self.rope

    def insert(self, slots: Tensor, rows: Tensor) -> None:
        live = slots >= 0
        rows = rows[live]
        values, scales = quantise(rows[:, : self.nope], SCALE_GROUP)
        rope = rows[:, self.nope :].bfloat16().contiguous()
        scale_bytes = scales.to(torch.float8_e8m0fnu).view(torch.uint8)
        padding = _scale_row_bytes(self.nope) - scale_bytes.shape[1]
        data_at, scales_at = self._offsets(slots[live])
        _write(self.data, data_at, torch.cat((values.view(torch.uint8), rope.view(torch.uint8)), 1))
        _write(self.data, scales_at, torch.nn.functional.pad(scale_bytes, (0, padding)))

    def gather(self, slots: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        data_at, scales_at = self._offsets(slots.flatten().clamp(min=0))
        rows = _read(self.data, data_at, self.nope + 2 * self.rope)
        scales = _read(self.data, scales_at, self.nope // SCALE_GROUP).view(torch.float8_e8m0fnu).to(dtype)
        values = rows[:, : self.nope].view(torch.float8_e4m3fn).to(dtype).unflatten(1, (-1, SCALE_GROUP))
        rope = rows[:, self.nope :].view(torch.bfloat16).to(dtype)
        return _zero_where_no_place(torch.cat(((values * scales[..., None]).flatten(1), rope), 1), slots)

    def _offsets(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        data_row, page_bytes = self.nope + 2 * self.rope, self.data.shape[1]
        return (
            row_offset(slots, self.page_size, page_bytes, data_row),
            row_offset(slots, self.page_size, page_bytes, _scale_row_bytes(self.nope), self.page_size * data_row),
        )


@dataclass(frozen=True)
class FP8IndexCache:
    """Index keys: 132 bytes a row at the real width of 128.

    A page holds page_size rows of `width` e4m3 bytes, page_size float32 scales (powers of two), then padding to a
    multiple of 576.
    """

    data: Tensor  # uint8 [pages, page_bytes]
    page_size: int
    width: int

    def __post_init__(self) -> None:
        if self.width < 4 or self.width % 4:
            raise ValueError(
                f"fp8 index cache: {self.width} channels; a positive multiple of 4 is needed, or use the plain layout"
            )

    @classmethod
    def empty(cls, pages: int, page_size: int, width: int, device: str = "cpu") -> "FP8IndexCache":
        page_bytes = _round_up(page_size * (width + 4), PAGE_ALIGNMENT)
        return cls(torch.zeros(pages, page_bytes, dtype=torch.uint8, device=device), page_size, width)

    def insert(self, slots: Tensor, rows: Tensor) -> None:
        live = slots >= 0
        values, scales = quantise(rows[live], self.width)
        values_at, scales_at = self._offsets(slots[live])
        _write(self.data, values_at, values.view(torch.uint8))
        _write(self.data, scales_at, scales.view(torch.uint8))

    def gather(self, slots: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        values_at, scales_at = self._offsets(slots.flatten().clamp(min=0))
        values = _read(self.data, values_at, self.width).view(torch.float8_e4m3fn).to(dtype)
        scales = _read(self.data, scales_at, 4).view(torch.float32).to(dtype)
        return _zero_where_no_place(values * scales, slots)

    def _offsets(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        page_bytes = self.data.shape[1]
        return (
            row_offset(slots, self.page_size, page_bytes, self.width),
            row_offset(slots, self.page_size, page_bytes, 4, self.page_size * self.width),
        )


@dataclass(frozen=True)
class Workspace:
    """Where the rows that a step attends lie once they are gathered: `rows` for each request, one after the other.

    Entry i of request r is row r * rows + i. Its raw tokens follow from row r * rows + entries on: those of the step,
    and before them the window - 1 that its first token looks back on, as far as there are any.
    """

    entries: int  # rows for compressed entries
    tokens: int  # rows for raw tokens
    window: int  # W

    @property
    def rows(self) -> int:
        return self.entries + self.tokens

    def first_tokens(self, computed: Tensor) -> Tensor:
        """int32 [R]: position of the first raw token that is gathered, where `computed` tokens were there before."""
        return (computed - (self.window - 1)).clamp(min=0)

    def columns(self, topk: int) -> int:
        """Of the indices into it: a multiple of 128, as sparse prefill kernels want it."""
        return _round_up(topk + self.window, 128)


def tickets_for(cache: Cache) -> Tensor:
    """int32 zeros, one for each row of a cache: how many of the programs that make the row are done with their part."""
    return torch.zeros(len(cache.data) * cache.page_size, dtype=torch.int32, device=cache.data.device)


def quantise(rows: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """rows [..., d] -> e4m3 [..., d] and float32 scales [..., d / group], value = e4m3 * scale.

    Rows are rounded to bf16 first. scale = 2 ** ceil(log2(max(amax, 1e-4) / 448)), one per `group` channels.
    """
    grouped = rows.bfloat16().float().unflatten(-1, (-1, group))
    mantissa, exponent = torch.frexp(grouped.abs().amax(-1).clamp(min=SMALLEST_AMAX) / E4M3_MAX)
    exponent = exponent - (mantissa == 0.5).int()
    # amax of no rows has strides that cannot be viewed as bytes
    scales = (exponent + 127).to(torch.uint8, memory_format=torch.contiguous_format).view(torch.float8_e8m0fnu).float()
    values = (grouped / scales[..., None]).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return values.flatten(-2), scales


def quantise_blocks(weight: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """weight [N, K] -> e4m3 [N, K] and float32 scales [N / side, K / side], one for each square block."""
    rows, columns = (size // side for size in weight.shape)
    blocks = weight.view(rows, side, columns, side).transpose(1, 2)
    values, scales = quantise(blocks.flatten(2), side * side)
    return values.view(blocks.shape).transpose(1, 2).reshape(weight.shape), scales[..., 0]


def slots_of(block_table: Tensor, request: Tensor, rows: Tensor, page_size: int) -> Tensor:
    """int64 slots of the requests' own rows, found in block_table [R, P]; -1 where the row is negative.

    request and rows are broadcast against each other.
    """
    known = rows.clamp(min=0).long()
    slots = block_table[request.long(), known // page_size].long() * page_size + known % page_size
    return slots.masked_fill(rows < 0, -1)


def row_offset(slots: Tensor, page_size: int, page_stride: int, row_stride: int, start: int = 0) -> Tensor:
    """int64 offset of each slot's row in a plane that begins at `start` of every page. Slots must not be negative."""
    slots = slots.long()
    return slots // page_size * page_stride + start + slots % page_size * row_stride


def _read(data: Tensor, offsets: Tensor, size: int) -> Tensor:
    return data.view(-1).unfold(0, size, 1).index_select(0, offsets)


def _write(data: Tensor, offsets: Tensor, rows: Tensor) -> None:
    """Byte by byte: index_put on a view whose rows overlap loses some where torch is told to be deterministic."""
    data.view(-1)[offsets[:, None] + torch.arange(rows.shape[1], device=rows.device)] = rows


def _zero_where_no_place(rows: Tensor, slots: Tensor) -> Tensor:
    return rows.view(*slots.shape, rows.shape[-1]).masked_fill_((slots < 0)[..., None], 0)


def _scale_row_bytes(nope: int) -> int:
    return _round_up(nope // SCALE_GROUP, 8)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
