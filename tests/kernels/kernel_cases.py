"""What the stage tests share: implementations of a stage, poisoned caches, block tables, one table of tolerances."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

import kernels
from kernels.contracts import Pages, Rows
from kernels.layouts import Cache, FP8DSMLACache, FP8IndexCache, PlainCache
from kernels.rope import Rope, table

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
YARN = SimpleNamespace(factor=16.0, original_length=65536, beta_fast=32.0, beta_slow=1.0)


def runs_on_gpu_only(file: Path) -> bool:
    """Written in Triton, or another package's."""
    return any(words in file.read_text() for words in ("import triton", "import peers"))


def implementations(stage: str) -> dict[str, Any]:
    """Every torch implementation of a stage but its reference, by its file's name. The others have their own tests."""
    files = sorted((Path(kernels.__file__).parent / stage).glob("*.py"))
    names = [file.stem for file in files if file.stem not in ("__init__", "reference") and not runs_on_gpu_only(file)]
    assert names
    return {name: getattr(import_module(f"kernels.{stage}.{name}"), stage.capitalize())() for name in names}


def assert_near(actual: Tensor, expected: Tensor, tolerance: float | None = None) -> None:
    """Same dtype and special values; elsewhere within the dtype's tolerance of the largest expected magnitude."""
    tolerance = TOLERANCE[actual.dtype] if tolerance is None else tolerance
    expected = expected.to(actual.device)
    assert actual.dtype == expected.dtype
    assert actual.isfinite().all() and expected.isfinite().all()
    largest = float(expected.abs().max()) if expected.numel() else 0.0
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance * largest)


def poisoned(layout: str, pages: int, page_size: int, nope: int, rope: int, device: str) -> Cache:
    """A cache in which every byte that nobody writes is part of a NaN."""
    if layout == "fp8_ds_mla":
        cache = FP8DSMLACache.empty(pages, page_size, nope, rope, device)
    elif layout == "fp8":
        cache = FP8IndexCache.empty(pages, page_size, nope + rope, device)
    else:
        dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[layout]
        cache = PlainCache.empty(pages, page_size, nope + rope, dtype, device)
    cache.data.view(torch.uint8).fill_(255)
    return cache


def rope_for(channels: int, device: str, length: int = 4096) -> Rope:
    return table(160000.0, channels, length, YARN, device)


def ragged_rows(spans: list[tuple[int, int]], padding: int, device: str) -> Rows:
    """Tokens [start, stop) of each request in turn, then padded rows."""
    positions = torch.cat([torch.arange(*span) for span in spans] + [torch.zeros(padding)]).int()
    request = torch.cat([torch.full((stop - start,), r) for r, (start, stop) in enumerate(spans)])
    request = torch.cat((request, torch.zeros(padding))).int()
    valid = torch.arange(len(positions)) < len(positions) - padding
    return Rows(positions.to(device), request.to(device), valid.to(device))


def shuffled_table(requests: int, columns: int, seed: int, device: str) -> Tensor:
    """int32 [requests, columns]: distinct pages in random order, never page 0."""
    pages = torch.randperm(requests * columns, generator=torch.Generator().manual_seed(seed)) + 1
    return pages.view(requests, columns).int().to(device)


def pages_of(rows: Rows, block_table: Tensor, page_size: int, ratio: int = 1) -> Pages:
    """Slots of the tokens' own rows; with a ratio, of the entries that the tokens close."""
    positions, request = rows.positions.tolist(), rows.request.tolist()
    slots = []
    for position, row, valid in zip(positions, request, rows.valid.tolist(), strict=True):
        page, offset = divmod(position // ratio, page_size)
        closes = valid and (position + 1) % ratio == 0
        slots.append(int(block_table[row, page]) * page_size + offset if closes else -1)
    return Pages(block_table, page_size, torch.tensor(slots, dtype=torch.int64, device=block_table.device))
