"""Store, pool, norm and insert of all streams in one launch.

Rows of the step itself are read from the inputs, earlier ones from the state: no program waits for another. Where
several programs pool an entry, the last of them norms it. The tokens of a request must stand in neighbouring rows, in
order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import triton

from kernels.compress.single import tokens_kernel
from kernels.compress.whole import windows_kernel
from kernels.contracts import Pages, Rows, Stream
from kernels.insert import layout_of
from kernels.overlap import launch_options
from kernels.rope import Rope
from kernels.rotary import refusal

NARROWEST = 32  # channels: a line of L2
LONG = 64  # tokens of a window that one program does not pool alone
LONG_FROM, SHORT_FROM = 256, 768  # tokens from which programs take whole windows, instead of single tokens


@dataclass(frozen=True)
class Compress:
    device: ClassVar[str] = "cuda"
    tile: int = 4096  # elements that a program pools at once; what is wider is split by channels
    num_warps: int | None = None  # None: 2, or 4 where windows are split
    whole_from: int | None = None  # tokens of a step of whole windows, two a request at least; None: chosen by ratio
    whole_tile: int = 4096
    warp_tile: int = 1024  # elements of a whole window that a warp holds, at least
    overlap: bool = False

    def refuses(self, model: Any) -> str | None:
        return refusal(model.head_dim, model.rope_dim) or refusal(model.index_dim, model.rope_dim)

    def __call__(
        self, streams: Sequence[Stream], eps: float, rope: Rope, rows: Rows, state_pages: Pages, pages: Pages
    ) -> None:
        whole_from = self.whole_from or (LONG_FROM if streams[0].ape.shape[0] >= LONG else SHORT_FROM)
        if len(rows.positions) >= max(whole_from, 2 * len(state_pages.block_table)):
            for stream in streams:  # a launch for each: a narrow one wants fewer warps
                width, windows, ratio = _shape(stream)
                channels, held = _tile(self.whole_tile, width, ratio)
                warps = (2 * windows - 1) * held * channels // self.warp_tile
                tile = channels, held, min(8, 1 << max(1, warps).bit_length() - 1)
                self._launch(windows_kernel, [stream], [tile], eps, rope, rows, state_pages, pages)
        elif len(rows.positions):
            shapes = [_shape(stream) for stream in streams]
            tiles = [_tile(self.tile, width, windows * ratio) for width, windows, ratio in shapes]
            split = any(tile[0] < shape[0] for tile, shape in zip(tiles, shapes, strict=True))
            tiles = [(*tile, self.num_warps or (4 if split else 2)) for tile in tiles]
            self._launch(tokens_kernel, streams, tiles, eps, rope, rows, state_pages, pages)

    def _launch(
        self,
        kernel: Any,
        streams: Sequence[Stream],
        tiles: Sequence[tuple[int, int, int]],
        eps: float,
        rope: Rope,
        rows: Rows,
        state_pages: Pages,
        pages: Pages,
    ) -> None:
        tokens = len(rows.positions)
        widths, windows, ratios = zip(*map(_shape, streams), strict=True)
        channels, at_once, warps = zip(*tiles, strict=True)
        tensors = tuple(_tensors(stream, tokens, own) for stream, own in zip(streams, channels, strict=True))
        splits = max(triton.cdiv(w, c) for w, c in zip(widths, channels, strict=True))
        whole = kernel is windows_kernel
        programs = splits * triton.cdiv(tokens, ratios[0]) if whole else (splits + 1) * tokens
        nopes, page_sizes, page_strides = zip(*(layout_of(stream.cache) for stream in streams), strict=True)
        kernel[(programs, len(streams))](
            *(tensors, rows.positions, rows.valid, pages.slot_mapping, rope.cos, rope.sin, eps, tokens),
            *(rows.request, state_pages.slot_mapping, state_pages.block_table, state_pages.block_table.stride(0)),
            WIDTHS=widths,
            RATIO=ratios[0],
            ROTATED=2 * rope.cos.shape[1],
            NOPES=nopes,
            PAGE_SIZES=page_sizes,
            PAGE_STRIDES=page_strides,
            WINDOWS=windows,
            STATE_PAGE_SIZE=state_pages.page_size,
            CHANNELS=channels,
            ROWS=at_once,
            SPLITS=splits,
            num_warps=warps[0],
            **launch_options(self.overlap, programs * len(streams)),
        )


def _shape(stream: Stream) -> tuple[int, int, int]:
    """Channels of an entry, windows it is pooled from, tokens of a window."""
    width, (ratio, row) = stream.norm.numel(), stream.ape.shape
    return width, row // width, ratio


def _tile(elements: int, width: int, pooled_rows: int) -> tuple[int, int]:
    """Channels and rows that a program holds."""
    rows = triton.next_power_of_2(pooled_rows)
    channels = min(triton.next_power_of_2(width), max(NARROWEST, elements // rows))
    return channels, min(rows, max(1, elements // channels))


def _tensors(stream: Stream, tokens: int, channels: int) -> tuple[Any, Any]:
    """What a kernel reads of a stream, and what it writes: in pieces where a program holds fewer channels than all."""
    assert stream.kv.stride(1) == stream.score.stride(1) == 1, (stream.kv.stride(), stream.score.stride())
    width, pieces = stream.norm.numel(), None
    if channels < width:
        assert (
            stream.tickets.dtype == torch.int32
            and stream.tickets.numel() == len(stream.cache.data) * stream.cache.page_size
        )
        pieces = torch.empty(tokens, width, dtype=torch.float32, device=stream.kv.device), stream.tickets
    inputs = (stream.kv, stream.score, stream.kv.stride(0), stream.score.stride(0), stream.ape, stream.state.data)
    return inputs, (stream.norm, stream.cache.data, pieces)
