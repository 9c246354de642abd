"""Index scores on the GPU at the shapes of Flash and Pro: 64 heads of 128 channels, pages of 64 entries."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))
from kernel_cases import TOLERANCE
from select_cases import Case, Step, definition
from test_select_score import CASES as SMALL_CASES
from test_select_score import assert_scores
from test_topk import assert_same_sets, expected

from kernels.contracts import Pages, Rows
from kernels.layouts import FP8IndexCache
from kernels.rope import rotate, table
from kernels.select.query import query_for
from kernels.select.query_fused import prepare
from kernels.select.score_paged import Score
from kernels.select.topk_radix import TopK

REFERENCE = definition("score")
E4M3_TOLERANCE = 1e-3  # the tensor cores of sm_90 keep about 14 bits of a sum of e4m3 products
REAL = Case(((0, 70), (2000, 2001), (400, 777), (3, 4), (4000, 4001)), 1, 64, "fp8", torch.bfloat16, 64, 128, 64, 3)
DECODE = Case(
    tuple((n, n + 1) for n in (4095, 2047, 2048, 2051, 2052, 3, 0, 130)), 4, 64, "fp8", torch.bfloat16, 64, 128, 64, 8
)
EVERY_RESIDUE = replace(DECODE, spans=tuple((n, n + 1) for n in range(2044, 2057)), padding=2)
CASES = [
    REAL,
    DECODE,
    EVERY_RESIDUE,
    replace(DECODE, ratio=1, padding=0),
    replace(REAL, layout="bf16", ratio=4),
    replace(REAL, layout="fp32", dtype=torch.float32, ratio=4),
    replace(REAL, page_size=1, ratio=4),
    replace(REAL, page_size=96, ratio=4),
    *SMALL_CASES,
]
SCORES = [
    Score(),
    Score(rows_per_program=1),
    Score(rows_per_program=2, entries=128, programs=7),
    Score(rows_per_program=4, entries=128, warps=8, stages=4, heads_per_program=64),
]


def built(case: Case) -> Step:
    """The cache is filled on the CPU: torch's deterministic index_put drops rows that overlap others in a view."""
    cache = case.build("cpu").cache
    return replace(case.build("cuda"), cache=replace(cache, data=cache.data.cuda()))


def tolerance(case: Case) -> float:
    return {"fp8": E4M3_TOLERANCE, "bf16": TOLERANCE[torch.bfloat16], "fp32": TOLERANCE[torch.float32]}[case.layout]


@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_agrees_with_the_reference(score, case):
    step = built(case)
    actual, wanted = step.scores(score), step.scores(REFERENCE)
    assert_scores(actual, wanted, tolerance(case))


@pytest.mark.parametrize("case", [REAL, DECODE], ids=repr)
def test_the_query_is_quantised_bit_by_bit(case):
    step = built(case)
    rows, live = step.batch.rows, step.batch.rows.valid
    values, weights = prepare(
        step.q, step.weights, step.rope, rows, 1, torch.float8_e4m3fn, 64, 128, 0, heads_per_program=16, warps=4
    )
    wanted, scales = query_for(step.cache, rotate(step.q.float(), rows.positions, step.rope))
    assert torch.equal(values[live].float(), wanted[live])
    factors = step.weights.float() * scales * (128 * 64) ** -0.5 / 2
    torch.testing.assert_close(weights[live], factors[live], rtol=1e-6, atol=0)


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_padding_changes_no_bit(score):
    padded, bare = built(DECODE).scores(score), built(DECODE.without_padding()).scores(score)
    assert torch.equal(padded[: -DECODE.padding], bare)
    assert (padded[-DECODE.padding :] == -torch.inf).all()


def test_pages_beyond_2_to_the_31_bytes():
    pages, far = 260_000, 259_000
    cache = FP8IndexCache.empty(pages, 64, 128, "cuda")
    assert far * cache.data.stride(0) > 2**31
    far_table = torch.arange(far, far + 8, dtype=torch.int32, device="cuda").flip(0)[None]
    near = FP8IndexCache.empty(9, 64, 128)
    near.insert(torch.arange(64, 576), torch.randn(512, 128))
    near = replace(near, data=near.data.cuda())
    cache.data[far_table[0].long()] = near.data[1:9]
    rows = Rows(
        torch.tensor([2047], dtype=torch.int32, device="cuda"),
        torch.zeros(1, dtype=torch.int32, device="cuda"),
        torch.ones(1, dtype=torch.bool, device="cuda"),
    )
    q, weights = torch.randn(1, 64, 128, device="cuda").bfloat16(), torch.randn(1, 64, device="cuda").bfloat16()
    rope = table(160000.0, 64, 4096, None, "cuda")
    arguments = (q, weights, rope, rows)
    no_slot = torch.full((1,), -1, device="cuda")
    near_table = torch.arange(1, 9, dtype=torch.int32, device="cuda")[None]
    expected_scores = Score()(*arguments, near, Pages(near_table, 64, no_slot), 4, 512)
    assert expected_scores.isfinite().all() and (expected_scores != 0).any()
    assert torch.equal(Score()(*arguments, cache, Pages(far_table, 64, no_slot), 4, 512), expected_scores)


@pytest.mark.parametrize("score", [Score(), Score(fill=False)], ids=repr)
def test_a_graph_captured_short_is_right_when_long(score):
    step = built(replace(DECODE, ratio=1))
    positions, width = step.batch.rows.positions, step.width
    long = positions.clone()
    positions.zero_()
    step.scores(score)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores = step.scores(score)
        chosen = TopK()(scores, step.batch.rows.visible(1), 512)
    positions.copy_(long)
    graph.replay()
    visible = step.batch.rows.visible(1)
    wanted = step.scores(REFERENCE)
    seen = torch.arange(width, device="cuda") < visible[:, None]
    assert_scores(scores.where(seen, -torch.inf), wanted, E4M3_TOLERANCE)
    assert_same_sets(chosen, expected(scores, visible, 512), visible)
