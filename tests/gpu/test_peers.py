"""Production kernels of other packages against the reference, at the shapes of Flash and Pro and of a rank of eight."""

from dataclasses import replace

import pytest
import torch
from attend_cases import AttendCase, replayed_long
from kernel_cases import assert_near
from test_score import DECODE, E4M3_TOLERANCE, REAL, REFERENCE, built
from test_score import assert_scores as assert_all_scores
from test_topk import Case as TopKCase

from kernels.attend import flashmla
from kernels.attend.reference import Attend as Reference
from kernels.contracts import Keys
from kernels.layouts import PlainCache
from kernels.select import score_deepgemm, topk_vllm

ATTEND, SCORE, TOPK = flashmla.Attend(), score_deepgemm.Score(), topk_vllm.TopK()
PLANNED = {"by columns": flashmla.Attend(plan="columns"), "by lengths": flashmla.Attend(plan="lengths")}
INF = float("inf")


def installed(kernel):
    return pytest.mark.skipif(kernel.missing() is not None, reason=f"NOT TESTED: {kernel.missing()}")


ATTENDED = [
    AttendCase(),
    AttendCase(absent=0.0, seed=1),
    AttendCase(absent=1.0),
    AttendCase(first_block_absent=64, seed=3),
    AttendCase(heads=8, tokens=64, seed=4),
    AttendCase(heads=16, tokens=5, widths=(128, 1024)),
    AttendCase(heads=128, tokens=3, widths=(128, 1024)),
    AttendCase(heads=64, tokens=2, widths=(128, 768)),
    AttendCase(heads=64, tokens=4, widths=(128, 300), page_sizes=(64, 2), sinks=None),
    AttendCase(heads=64, tokens=200, widths=(128,), page_sizes=(64,), layouts=("fp8_ds_mla",)),
    AttendCase(heads=16, tokens=300, widths=(128, 70), seed=9),
    AttendCase(heads=1, tokens=1, widths=(1, 1), page_sizes=(1, 1), absent=0.0),
]


@installed(ATTEND)
@pytest.mark.parametrize("plan", PLANNED)
@pytest.mark.parametrize("case", ATTENDED, ids=repr)
def test_decode_equals_the_reference(case, plan):
    inputs = case.inputs()
    assert_near(PLANNED[plan](*inputs), Reference()(*inputs), 1e-2)


@installed(ATTEND)
@pytest.mark.parametrize("heads", [8, 64, 128])
@pytest.mark.parametrize("tokens", [1, 3, 8, 70, 200])
def test_rows_far_shorter_than_their_columns(tokens, heads):
    """A plan that was made from other lengths gives wrong sums here."""
    q, keys, sink, scale = AttendCase(tokens=tokens, heads=heads, absent=0.0).inputs()
    for source in keys:
        shorter = torch.arange(tokens, device="cuda") * 37 % (source.slots.shape[1] + 1)
        source.lengths.copy_(source.lengths.minimum(shorter))
    inputs = (q, keys, sink, scale)
    assert_near(ATTEND(*inputs), Reference()(*inputs), 1e-2)


@installed(ATTEND)
def test_a_plan_serves_other_steps_of_its_shape():
    for seed in range(4):
        inputs = AttendCase(tokens=40, seed=seed).inputs()
        assert_near(ATTEND(*inputs), Reference()(*inputs), 1e-2)


@installed(ATTEND)
@pytest.mark.parametrize("plan", PLANNED)
@pytest.mark.parametrize("heads", [8, 64])
def test_decode_leaves_padded_rows_zero(heads, plan):
    q, keys, sink, scale = AttendCase(tokens=11, heads=heads).inputs()
    q[7:] = float("nan")
    for source in keys:
        source.lengths[7:] = 0
    actual = PLANNED[plan](q, keys, sink, scale)
    assert torch.equal(actual[7:], torch.zeros_like(actual[7:]))
    wanted = Reference()(q[:7], [Keys(k.cache, k.slots[:7], k.lengths[:7]) for k in keys], sink, scale)
    assert_near(actual[:7], wanted, 1e-2)


@installed(ATTEND)
def test_infinite_sinks():
    q, keys, _, scale = AttendCase(tokens=6, heads=8, seed=6).inputs()
    actual = ATTEND(q, keys, torch.tensor([INF, -INF] * 4, device="cuda"), scale)
    assert torch.equal(actual[:, ::2], torch.zeros_like(actual[:, ::2]))
    assert_near(actual[:, 1::2], ATTEND(q, keys, None, scale)[:, 1::2], 1e-6)


@installed(ATTEND)
@pytest.mark.parametrize("plan", PLANNED)
def test_a_graph_captured_with_short_lengths_replays_long_ones(plan):
    inputs = AttendCase(tokens=5, heads=8, absent=0.0).inputs()
    assert_near(replayed_long(PLANNED[plan], inputs), Reference()(*inputs), 1e-2)


@installed(ATTEND)
@pytest.mark.parametrize(("heads", "columns"), [(64, 640), (8, 640), (128, 1152), (16, 200)])
def test_prefill_over_gathered_rows_equals_the_reference(heads, columns):
    """-1 at the tail only, as a workspace's indices have it; a padded row among them."""
    generator = torch.Generator("cuda").manual_seed(columns)
    rows = torch.randn(3000, 1, 512, generator=generator, device="cuda").bfloat16()
    slots = torch.randint(0, 3000, (130, columns), generator=generator, device="cuda").int()
    lengths = torch.randint(1, columns + 1, (130,), generator=generator, device="cuda").int()
    lengths[5] = 0
    slots[torch.arange(columns, device="cuda") >= lengths[:, None]] = -1
    q = torch.randn(130, heads, 512, generator=generator, device="cuda").bfloat16()
    sink = torch.randn(heads, generator=generator, device="cuda")
    inputs = (q, [Keys(PlainCache(rows), slots, lengths)], sink, 512**-0.5)
    assert_near(ATTEND(*inputs), Reference()(*inputs), 1e-2)


SCORED = [REAL, DECODE, replace(REAL, ratio=4), replace(DECODE, ratio=1, padding=0), replace(DECODE, heads=32)]


@installed(SCORE)
@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize("case", SCORED, ids=repr)
def test_scores_agree_with_the_reference(case, fill):
    step = built(case)
    actual, wanted = step.scores(score_deepgemm.Score(fill)), step.scores(REFERENCE)
    if not fill:
        actual = actual.where(wanted > -INF, -INF)
    assert_all_scores(actual, wanted, E4M3_TOLERANCE)


@installed(SCORE)
def test_scores_of_a_graph_captured_short_are_right_when_long():
    step = built(DECODE)
    positions = step.batch.rows.positions
    long = positions.clone()
    positions.zero_()
    step.scores(SCORE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores = step.scores(SCORE)
    positions.copy_(long)
    graph.replay()
    assert_all_scores(scores, step.scores(REFERENCE), E4M3_TOLERANCE)


CHOSEN = [
    (topk_vllm.TopK(), TopKCase(9, 8192, 512)),
    (topk_vllm.TopK(), TopKCase(64, 8192, 512)),
    (topk_vllm.TopK(), TopKCase(64, 512, 512)),
    (topk_vllm.TopK(), TopKCase(64, 8192, 1024)),
    (topk_vllm.TopK(), TopKCase(64, 3000, 768)),
    (topk_vllm.TopK(), TopKCase(64, 32768, 512)),
    (topk_vllm.TopK(), TopKCase(2000, 2048, 512)),
    (topk_vllm.TopK("decode"), TopKCase(64, 8192, 512)),
    (topk_vllm.TopK("prefill"), TopKCase(64, 8192, 512)),
    (topk_vllm.TopK("persistent"), TopKCase(9, 3000, 512)),
    (topk_vllm.TopK("cooperative"), TopKCase(32, 40000, 512)),
]


@installed(TOPK)
@pytest.mark.parametrize(("topk", "case"), CHOSEN, ids=repr)
def test_topk_chooses_the_best_scores(topk, case):
    """By their values: which of equal scores it takes is not defined."""
    scores, visible = case.scores(), case.visible()
    chosen = topk(scores, visible, case.topk)
    column = torch.arange(case.topk, device="cuda")
    taken = visible.clamp(max=case.topk)
    assert torch.equal(chosen >= 0, column < taken[:, None])
    assert (chosen < visible[:, None]).all() and (chosen >= -1).all()
    for row, count in zip(chosen, taken.tolist(), strict=True):
        assert len(row[:count].unique()) == count
    seen = scores.masked_fill(torch.arange(case.width, device="cuda") >= visible[:, None], -INF)
    wanted = seen.sort(1, descending=True).values[:, : case.topk]
    got = scores.gather(1, chosen.clamp(min=0).long()).masked_fill(chosen < 0, -INF)
    got = got.sort(1, descending=True).values[:, : wanted.shape[1]]
    assert torch.equal(got, wanted)
