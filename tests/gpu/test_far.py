"""Every kernel that reads or writes a cache, beyond 2^31 of its elements: page 7768, or pages of 64 rows far behind."""

import pytest
import torch
from far_cases import (
    attend_is_the_same,
    chosen_entries_are_the_same,
    compress_is_the_same,
    covered_slots_are_the_same,
    gather_is_the_same,
    ingest_is_the_same,
    located_slots_are_the_same,
    score_is_the_same,
)

from kernels.attend import decode_split, hopper, hopper_heads, hopper_keys
from kernels.compress.fused import Compress
from kernels.cover.fused import Cover
from kernels.gather.fused import Gather
from kernels.ingest.fused import Ingest
from kernels.select import locate_batched, locate_churn, locate_constexpr, locate_fused, locate_runtime
from kernels.select.score_paged import Score
from kernels.select.topk_radix import TopK

ROWS = [("fp8_ds_mla", 64), ("fp8_ds_mla", 480), ("bf16", 64)]
COMPRESS = {
    "single": Compress(whole_from=1 << 30),
    "single, split": Compress(whole_from=1 << 30, tile=512),
    "whole": Compress(whole_from=1),
    "whole, split": Compress(whole_from=1, whole_tile=512, warp_tile=256),
}
ATTENDS = {
    "split": decode_split.Attend(splits=2),
    "heads": hopper_heads.Attend(),
    "heads in 2": hopper_heads.Attend(splits=2),
    "keys": hopper_keys.Attend(),
    "keys in 2": hopper_keys.Attend(splits=2),
    "either": hopper.Attend(),
}
LOCATES = [kind.Locate() for kind in (locate_runtime, locate_constexpr, locate_churn, locate_batched, locate_fused)]


@pytest.fixture(autouse=True)
def memory_for_others():
    yield
    torch.cuda.empty_cache()


@pytest.mark.parametrize(("layout", "page_size"), ROWS)
def test_ingest(layout, page_size):
    ingest_is_the_same(Ingest(), layout, page_size, 448, 64, "cuda")


@pytest.mark.parametrize("name", COMPRESS)
@pytest.mark.parametrize(
    ("layout", "nope", "ratio", "windows"),
    [("fp8_ds_mla", 448, 4, 2), ("fp8", 64, 4, 2), ("bf16", 448, 4, 2), ("fp8_ds_mla", 448, 128, 1)],
)
def test_compress(name, layout, nope, ratio, windows):
    compress_is_the_same(COMPRESS[name], layout, nope, 64, ratio, windows, "cuda")


@pytest.mark.parametrize(("layout", "page_size"), [("fp8", 64), ("fp8", 480), ("bf16", 64), ("fp8", 1)])
@pytest.mark.parametrize("score", [Score(), Score(rows_per_program=1), Score(entries=128)], ids=repr)
def test_score(score, layout, page_size):
    score_is_the_same(score, layout, page_size, 64, "cuda")


@pytest.mark.parametrize(("layout", "page_size"), ROWS)
def test_gather(layout, page_size):
    gather_is_the_same(Gather(), layout, page_size, 448, 64, "cuda")


@pytest.mark.parametrize(("layout", "page_size"), ROWS)
@pytest.mark.parametrize("heads", [8, 64])
@pytest.mark.parametrize("name", ATTENDS)
def test_attend(name, heads, layout, page_size):
    attend_is_the_same(ATTENDS[name], layout, page_size, 448, 64, heads, "cuda")


@pytest.mark.parametrize("locate", LOCATES, ids=lambda it: type(it).__module__)
def test_locate(locate):
    located_slots_are_the_same(locate, "cuda")


@pytest.mark.parametrize("width", ["exact", "adaptive", "full"])
def test_cover(width):
    covered_slots_are_the_same(Cover(width), "cuda")


def test_topk():
    chosen_entries_are_the_same(TopK(), "cuda")
