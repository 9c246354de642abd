"""DeepGEMM's fp8 index scores: paged where each request has one row, over gathered keys where it has more."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels import peers
from kernels.contracts import Pages, Rows
from kernels.layouts import Cache, FP8IndexCache
from kernels.rope import Rope
from kernels.select.query_fused import prepare

HEADS, CHANNELS, PAGE = (32, 64), 128, 64


@dataclass(frozen=True)
class Score:
    """`fill`: write -inf behind the visible entries, which vLLM leaves out: its top-k looks at no more than these.

    The plan of the paged kernel is part of the call; vLLM makes one for all layers of a step.
    """

    device: ClassVar[str] = "cuda"
    fill: bool = True

    def missing(self) -> str | None:
        return peers.absent("DeepGEMM", peers.DEEP_GEMM, package="deep_gemm")

    def refuses(self, model: Any) -> str | None:
        if model.index_heads not in HEADS or model.index_dim != CHANNELS:
            return f"DeepGEMM takes 32 or 64 index heads of {CHANNELS}, got {model.index_heads} of {model.index_dim}"
        return None

    def __call__(
        self, q: Tensor, weights: Tensor, rope: Rope, rows: Rows, cache: Cache, pages: Pages, ratio: int, width: int
    ) -> Tensor:
        if not isinstance(cache, FP8IndexCache) or cache.page_size != PAGE:
            raise ValueError(
                f"DeepGEMM reads fp8 index pages of {PAGE} entries; use engine.index_layout=fp8 and "
                f"engine.block_size={PAGE * ratio}"
            )
        count, heads, channels = q.shape
        if not count or not width:
            return torch.empty((count, width), dtype=torch.float32, device=q.device)
        dtype = torch.float8_e4m3fn
        values, scaled = prepare(q, weights, rope, rows, ratio, dtype, heads, channels, 0, 16, 4, share=1.0)
        scores = (gathered if count > len(pages.block_table) else paged)(
            values, scaled, rows, cache, pages, ratio, width
        )
        if self.fill:
            block = 1024
            grid = (count, triton.cdiv(width, block))
            _fill[grid](scores, rows.positions, rows.valid, scores.stride(0), width, RATIO=ratio, BLOCK=block)
        return scores


def paged(values: Tensor, scaled: Tensor, rows: Rows, cache: Cache, pages: Pages, ratio: int, width: int) -> Tensor:
    """Rows with their own length and row of the block table each. No row is empty: DeepGEMM plans with none of them."""
    gemm = peers.deep_gemm()
    count, columns = len(values), pages.block_table.shape[1]
    lengths = torch.empty((count, 1), dtype=torch.int32, device=values.device)
    table = torch.empty((count, columns), dtype=torch.int32, device=values.device)
    _places[(count,)](
        *(rows.positions, rows.request, rows.valid, pages.block_table, lengths, table),
        columns,
        pages.block_table.stride(0),
        RATIO=ratio,
        BLOCK=256,
        num_warps=1,
    )
    plan = gemm.get_paged_mqa_logits_metadata(lengths, PAGE, gemm.get_num_sms())
    keys = paged_keys(cache)
    return gemm.fp8_fp4_paged_mqa_logits(
        (values[:, None], None), keys, scaled, lengths, table, plan, width, clean_logits=False
    )


def paged_keys(cache: FP8IndexCache) -> Tensor:
    pages, page_bytes = cache.data.shape
    row = CHANNELS + 4
    return cache.data.as_strided((pages, PAGE, 1, row), (page_bytes, row, row, 1))


def gathered(values: Tensor, scaled: Tensor, rows: Rows, cache: Cache, pages: Pages, ratio: int, width: int) -> Tensor:
    """The entries of every request, as many as the longest has, one request after another."""
    requests, columns = len(pages.block_table), triton.cdiv(width, PAGE)
    entries = requests * columns * PAGE
    keys = torch.empty((entries, CHANNELS), dtype=torch.float8_e4m3fn, device=values.device)
    scales = torch.empty(entries, dtype=torch.float32, device=values.device)
    _gather[(requests, columns)](
        *(cache.data, cache.data.view(torch.float32), pages.block_table, keys.view(torch.uint8), scales),
        pages.block_table.stride(0),
        PAGE_BYTES=cache.data.shape[1],
        X=CHANNELS,
        PAGE=PAGE,
    )
    starts = rows.request * (columns * PAGE)
    ends = starts + rows.visible(ratio)
    return peers.deep_gemm().fp8_fp4_mqa_logits(
        (values, None), (keys, scales), scaled, starts, ends, clean_logits=False, max_seqlen_k=width
    )


@triton.jit(do_not_specialize=["columns", "stride"])
def _places(
    p_positions,
    p_request,
    p_valid,
    p_table,
    p_lengths,
    p_own_table,
    columns,
    stride,
    RATIO: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i_row = tl.program_id(0).to(tl.int64)
    visible = (tl.load(p_positions + i_row) + 1) // RATIO
    tl.store(p_lengths + i_row, tl.where(tl.load(p_valid + i_row), tl.maximum(visible, 1), 1))
    p_from = p_table + tl.load(p_request + i_row).to(tl.int64) * stride
    for start in range(0, columns, BLOCK):
        o = start + tl.arange(0, BLOCK)
        tl.store(p_own_table + i_row * columns + o, tl.load(p_from + o, mask=o < columns), mask=o < columns)


@triton.jit(do_not_specialize=["stride"])
def _gather(
    p_bytes,
    p_floats,
    p_table,
    p_keys,
    p_scales,
    stride,
    PAGE_BYTES: tl.constexpr,
    X: tl.constexpr,
    PAGE: tl.constexpr,
):
    i_request, i_column = tl.program_id(0).to(tl.int64), tl.program_id(1)
    page = tl.load(p_table + i_request * stride + i_column).to(tl.int64)
    first = (i_request * tl.num_programs(1) + i_column) * PAGE
    o_byte, o_entry = tl.arange(0, PAGE * X), tl.arange(0, PAGE)
    tl.store(p_keys + first * X + o_byte, tl.load(p_bytes + page * PAGE_BYTES + o_byte))
    b_scale = tl.load(p_floats + page * (PAGE_BYTES // 4) + PAGE * X // 4 + o_entry)
    tl.store(p_scales + first + o_entry, b_scale)


@triton.jit(do_not_specialize=["width"])
def _fill(p_scores, p_positions, p_valid, stride, width, RATIO: tl.constexpr, BLOCK: tl.constexpr):
    i_row = tl.program_id(0).to(tl.int64)
    visible = tl.where(tl.load(p_valid + i_row), (tl.load(p_positions + i_row) + 1) // RATIO, 0)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    b_none = tl.full([BLOCK], float("-inf"), tl.float32)
    tl.store(p_scores + i_row * stride + o, b_none, mask=(o >= visible) & (o < width))
