"""32-bit addresses: what a kernel computes them from is the same in Triton's interpreter as on a GPU."""

import pytest
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
from test_compress import KNOBS as COMPRESS

from kernels.attend import decode_split
from kernels.cover.fused import Cover
from kernels.gather.fused import Gather
from kernels.ingest.fused import Ingest
from kernels.select import locate_batched, locate_churn, locate_constexpr, locate_fused, locate_runtime
from kernels.select.score_paged import Score
from kernels.select.topk_radix import TopK

LOCATES = [
    locate_runtime.Locate(block=32),
    locate_constexpr.Locate(block=32),
    locate_churn.Locate(block=32),
    locate_batched.Locate(rows_per_program=4),
    locate_fused.Locate(),
]


@pytest.mark.parametrize(("layout", "page_size"), [("fp8_ds_mla", 64), ("fp8_ds_mla", 480), ("bf16", 64)])
def test_ingest(layout, page_size):
    ingest_is_the_same(Ingest(), layout, page_size, 448, 64, "cpu")


@pytest.mark.parametrize(
    ("name", "layout"), [*((name, "fp8_ds_mla") for name in COMPRESS), ("single", "fp8"), ("whole", "bf16")]
)
def test_compress(name, layout):
    compress_is_the_same(COMPRESS[name], layout, 64, 8, 4, 2, "cpu")


@pytest.mark.parametrize(("layout", "page_size"), [("fp32", 64), ("fp32", 1), ("fp32", 480)])
def test_score(layout, page_size):
    score_is_the_same(Score(entries=16), layout, page_size, 3, "cpu")


@pytest.mark.parametrize(("layout", "page_size"), [("fp8_ds_mla", 64), ("fp8_ds_mla", 480), ("fp32", 64)])
def test_gather(layout, page_size):
    gather_is_the_same(Gather(), layout, page_size, 64, 8, "cpu")


@pytest.mark.parametrize(("layout", "page_size"), [("fp8_ds_mla", 64), ("fp8_ds_mla", 480), ("fp32", 64)])
def test_attend(layout, page_size):
    attend_is_the_same(decode_split.Attend(splits=2, keys=16), layout, page_size, 64, 8, 3, "cpu")


@pytest.mark.parametrize("locate", LOCATES, ids=lambda it: type(it).__module__)
def test_locate(locate):
    located_slots_are_the_same(locate, "cpu")


@pytest.mark.parametrize("width", ["exact", "adaptive", "full"])
def test_cover(width):
    covered_slots_are_the_same(Cover(width), "cpu")


def test_topk():
    chosen_entries_are_the_same(TopK(), "cpu")
