"""Store and pool of all streams in one launch, and in a second one the norm of entries that several programs pooled.

Rows of the step itself are read from the inputs, earlier ones from the state: no program waits for another. The tokens
of a request must stand in neighbouring rows, in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.compress.pool import finish_factors, finished, pool_windows
from kernels.compress.store import store_rows
from kernels.contracts import Pages, Rows, Stream
from kernels.insert import insert, layout_of
from kernels.overlap import launch_options, wait_for_inputs
from kernels.rope import Rope
from kernels.rotary import refusal


@dataclass(frozen=True)
class Compress:
    device: ClassVar[str] = "cuda"
    tile: int = 4096  # elements that a program pools at once; what is wider is split by channels
    num_warps: int = 4
    coarse_from: int = 1024  # tokens; a program of such a step takes `ratio` tokens to pool or `rows` to store
    rows: int = 4
    overlap: bool = False

    def refuses(self, model: Any) -> str | None:
        return refusal(model.head_dim, model.rope_dim) or refusal(model.index_dim, model.rope_dim)

    def __call__(
        self, streams: Sequence[Stream], eps: float, rope: Rope, rows: Rows, state_pages: Pages, pages: Pages
    ) -> None:
        tokens = len(rows.positions)
        if not tokens:
            return
        ratio, (widths, windows) = streams[0].ape.shape[0], zip(*map(_shape, streams), strict=True)
        channels, at_once = zip(*(self._tile(w, n * ratio) for w, n in zip(widths, windows, strict=True)), strict=True)
        splits = max(triton.cdiv(w, c) for w, c in zip(widths, channels, strict=True))
        coarse = tokens >= self.coarse_from
        chunk = min(128, 1 << ratio.bit_length() - 1) if coarse else 1
        stored_at_once = self.rows if coarse else 1
        pools, stores = splits * triton.cdiv(tokens, chunk), triton.cdiv(tokens, stored_at_once)
        pieces = [_scratch(stream, tokens) if splits > 1 else None for stream in streams]
        tensors = tuple(_tensors(stream, piece) for stream, piece in zip(streams, pieces, strict=True))
        nopes, page_sizes, page_strides = zip(*(layout_of(stream.cache) for stream in streams), strict=True)
        layout = {"NOPES": nopes, "PAGE_SIZES": page_sizes, "PAGE_STRIDES": page_strides}
        shared = {"WIDTHS": widths, "RATIO": ratio, "ROTATED": 2 * rope.cos.shape[1], **layout}
        step = (rows.positions, rows.valid, pages.slot_mapping, rope.cos, rope.sin, eps)
        compress_kernel[(pools + stores, len(streams))](
            *(tensors, *step, rows.request, state_pages.slot_mapping),
            *(state_pages.block_table, state_pages.block_table.stride(0), tokens, pools),
            **shared,
            WINDOWS=windows,
            STATE_PAGE_SIZE=state_pages.page_size,
            CHANNELS=channels,
            ROWS=at_once,
            SPLITS=splits,
            CHUNK=chunk,
            STORED=stored_at_once,
            num_warps=self.num_warps,
            **launch_options(self.overlap, (pools + stores) * len(streams)),
        )
        if splits > 1:
            overlap = launch_options(self.overlap, tokens * len(streams))
            finish_kernel[(tokens, len(streams))](tensors, *step, **shared, **overlap)

    def _tile(self, width: int, pooled_rows: int) -> tuple[int, int]:
        """Channels and rows that a program holds."""
        rows = triton.next_power_of_2(pooled_rows)
        channels = min(triton.next_power_of_2(width), max(64, self.tile // rows))
        return channels, min(rows, self.tile // channels)


def _shape(stream: Stream) -> tuple[int, int]:
    width = stream.norm.numel()
    return width, stream.ape.shape[1] // width


def _scratch(stream: Stream, tokens: int) -> Tensor:
    return torch.empty(tokens, stream.norm.numel(), dtype=torch.float32, device=stream.kv.device)


def _tensors(stream: Stream, pieces: Tensor | None) -> tuple[Tensor | int | None, ...]:
    assert stream.kv.stride(1) == stream.score.stride(1) == 1, (stream.kv.stride(), stream.score.stride())
    inputs = (stream.kv, stream.score, stream.kv.stride(0), stream.score.stride(0), stream.ape, stream.state.data)
    return inputs, (stream.norm, stream.cache.data, pieces)


@triton.jit(do_not_specialize=["tokens", "pools", "stride_table"])
def compress_kernel(
    streams,
    p_positions,
    p_valid,
    p_slots,
    p_cos,
    p_sin,
    eps,
    p_request,
    p_state_slots,
    p_state_table,
    stride_table,
    tokens,
    pools,
    WIDTHS: tl.constexpr,
    RATIO: tl.constexpr,
    ROTATED: tl.constexpr,
    NOPES: tl.constexpr,
    PAGE_SIZES: tl.constexpr,
    PAGE_STRIDES: tl.constexpr,
    WINDOWS: tl.constexpr,
    STATE_PAGE_SIZE: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    SPLITS: tl.constexpr,
    CHUNK: tl.constexpr,
    STORED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Programs that pool and programs that store: side by side where they take the same tokens, else pooling first."""
    wait_for_inputs(OVERLAP)
    i_program = tl.program_id(0)
    if SPLITS == 1 and CHUNK == STORED:
        pooling = i_program % 2 == 0
        i_program = i_program // 2
    else:
        pooling = i_program < pools
        i_program = tl.where(pooling, i_program, i_program - pools)
    for i in tl.static_range(len(WIDTHS)):
        if tl.program_id(1) == i:
            inputs, outputs = streams[i]
            if pooling:
                i_first, i_channel = i_program // SPLITS * CHUNK, i_program % SPLITS * CHANNELS[i]
                pool_windows(
                    *(inputs, outputs, i_first, i_channel, tokens, p_positions, p_valid, p_slots, p_cos, p_sin, eps),
                    *(p_request, p_state_table, stride_table, WIDTHS[i], RATIO, ROTATED, NOPES[i], PAGE_SIZES[i]),
                    *(PAGE_STRIDES[i], WINDOWS[i], STATE_PAGE_SIZE, CHANNELS[i], ROWS[i], SPLITS, CHUNK),
                )
            else:
                store_rows(
                    *(inputs, i_program * STORED, tokens, p_positions, p_valid, p_state_slots),
                    *(WIDTHS[i] * WINDOWS[i], RATIO, STORED),
                )


@triton.jit
def finish_kernel(
    streams,
    p_positions,
    p_valid,
    p_slots,
    p_cos,
    p_sin,
    eps,
    WIDTHS: tl.constexpr,
    RATIO: tl.constexpr,
    ROTATED: tl.constexpr,
    NOPES: tl.constexpr,
    PAGE_SIZES: tl.constexpr,
    PAGE_STRIDES: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    wait_for_inputs(OVERLAP)
    i_token = tl.program_id(0)
    i_slot = tl.load(p_slots + i_token)
    i_position = tl.load(p_positions + i_token)
    if (i_slot >= 0) & tl.load(p_valid + i_token):
        for i in tl.static_range(len(WIDTHS)):
            if tl.program_id(1) == i:
                p_norm, p_cache, p_pieces = streams[i][1]
                BLOCK: tl.constexpr = triton.next_power_of_2(WIDTHS[i])
                o_channel = tl.arange(0, BLOCK)
                p_piece = p_pieces + i_token.to(tl.int64) * WIDTHS[i] + o_channel
                b_entry = tl.load(p_piece, mask=o_channel < WIDTHS[i], other=0.0)
                i_first = i_position + 1 - RATIO
                factors = finish_factors(p_norm, p_cos, p_sin, i_first, WIDTHS[i], ROTATED, BLOCK)
                b_entry = finished(b_entry, factors, eps, WIDTHS[i], ROTATED)
                insert(b_entry, p_cache, i_slot, WIDTHS[i], NOPES[i], PAGE_SIZES[i], PAGE_STRIDES[i])
