from dataclasses import replace
from itertools import permutations

import pytest
import torch
from kernel_cases import TOLERANCE
from select_cases import Case, Step, definition, implementations

from kernels.rope import rotate
from kernels.select.query import query_for
from kernels.select.score_eager import Score

REFERENCE = definition("score")
FAST = implementations("score")
ALL = {"reference": REFERENCE, **FAST}
MIXED = Case(((0, 17), (30, 31), (90, 97), (2, 3), (45, 46)), padding=2)
CASES = [
    MIXED,
    replace(MIXED, layout="fp8"),
    replace(MIXED, layout="bf16", page_size=1),
    replace(MIXED, layout="fp8", page_size=85, heads=1, channels=128, rotated=64),
    replace(MIXED, layout="fp8", page_size=64, heads=64, channels=128, rotated=64, ratio=1),
    replace(MIXED, ratio=3, page_size=2, heads=7),
    replace(MIXED, ratio=128, page_size=2),
    replace(MIXED, ratio=1, rotated=16),
    Case(((0, 3),)),
    Case(((3, 4),), layout="fp8"),
    Case(((250, 251), (600, 601), (61, 62), (600, 601)), layout="fp8", page_size=64, heads=8),
    Case(((0, 90),), page_size=64, heads=8, seed=3),
]


def by_hand(case: Case, step: Step) -> torch.Tensor:
    """Float64, one token at a time, from the entries and not from the cache."""
    rows, channels, entries = step.batch.rows, case.channels, case.entries()
    scores = torch.full((len(rows.positions), step.width), -torch.inf, dtype=torch.float64)
    for token in rows.valid.nonzero().squeeze(1).tolist():
        position = int(rows.positions[token])
        q, weights = step.q[token].cpu().double(), step.weights[token].cpu().double()
        if case.layout == "fp8":  # one rounding of q decides its e4m3 value, so it must be the layer's
            q = rotate(step.q[token, None].float(), rows.positions[token, None], step.rope)[0].cpu()
        else:
            turn = torch.complex(step.rope.cos[position].cpu().double(), step.rope.sin[position].cpu().double())
            pairs = torch.view_as_complex(q[:, channels - case.rotated :].unflatten(1, (-1, 2)).contiguous())
            q = torch.cat((q[:, : channels - case.rotated], torch.view_as_real(pairs * turn).flatten(1)), 1)
        keys = entries[int(rows.request[token])][: (position + 1) // case.ratio]
        if case.layout == "fp8":
            q, keys = e4m3(q), e4m3(keys)
        if case.layout == "bf16":
            keys = keys.bfloat16().double()
        logits = torch.einsum("hc,kc->hk", q, keys.double()).clamp(min=0)
        scores[token, : len(keys)] = torch.einsum("h,hk->k", weights, logits) / (channels * case.heads) ** 0.5
    return scores


def e4m3(x: torch.Tensor) -> torch.Tensor:
    x = x.bfloat16().double()
    scale = 2 ** torch.ceil(torch.log2(x.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448))
    return (x / scale).float().to(torch.float8_e4m3fn).double() * scale


def assert_scores(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    actual, expected = actual.cpu(), expected.cpu()
    assert actual.dtype == torch.float32 and actual.shape == expected.shape
    finite = expected.isfinite()
    assert (actual[~finite] == -torch.inf).all()
    largest = float(expected[finite].abs().max()) if finite.any() else 0.0
    torch.testing.assert_close(actual[finite], expected[finite].float(), rtol=tolerance, atol=tolerance * largest)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_the_reference_is_the_formula(case, dtype, device):
    case = replace(case, dtype=dtype)
    step = case.build(device)
    assert_scores(step.scores(REFERENCE), by_hand(case, step), TOLERANCE[torch.float32])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("score", FAST.values(), ids=FAST.keys())
def test_agrees_with_the_reference(score, case, dtype, device):
    step = replace(case, dtype=dtype).build(device)
    assert_scores(step.scores(score), step.scores(REFERENCE), TOLERANCE[dtype])


@pytest.mark.parametrize("ratio", [4, 128])
@pytest.mark.parametrize("score", ALL.values(), ids=ALL.keys())
def test_minus_infinity_begins_where_the_visible_end(score, ratio, device):
    step = Case(((0, 2 * ratio + 1), (3 * ratio, 3 * ratio + 1)), ratio=ratio, page_size=2).build(device)
    finite = step.scores(score).isfinite()
    assert finite.sum(1).tolist() == [(position + 1) // ratio for position in range(2 * ratio + 1)] + [3]
    assert finite.tolist() == finite.sort(1, descending=True).values.tolist()


@pytest.mark.parametrize(
    "case", [MIXED, replace(MIXED, layout="fp8"), Case(((40, 41),), heads=1, padding=2), Case(((0, 17),), padding=15)]
)
@pytest.mark.parametrize("score", ALL.values(), ids=ALL.keys())
def test_padding_changes_no_bit(score, case, device):
    padded, bare = case.build(device).scores(score), case.without_padding().build(device).scores(score)
    assert torch.equal(padded[: -case.padding], bare)
    assert (padded[-case.padding :] == -torch.inf).all()


@pytest.mark.parametrize("score", ALL.values(), ids=ALL.keys())
def test_order_and_neighbours_do_not_matter(score, device):
    spans = ((0, 9), (30, 31), (44, 46))
    alone = {span: Case((span,)).build(device).scores(score) for span in spans}
    for order in permutations(spans):
        together = Case(order).build(device).scores(score).split([stop - start for start, stop in order])
        for span, scores in zip(order, together, strict=True):
            entries = alone[span].shape[1]
            assert_scores(scores[:, :entries], alone[span], TOLERANCE[torch.float32])
            assert (scores[:, entries:] == -torch.inf).all()


@pytest.mark.parametrize("score", ALL.values(), ids=ALL.keys())
def test_some_rows_score_as_they_do_among_all(score, device):
    step = replace(MIXED, layout="fp8").build(device)
    index = torch.tensor([3, 16, 18, 19, 24, 26], device=device)
    rows = step.batch.rows.take(index)
    some = score(step.q[index], step.weights[index], step.rope, rows, step.cache, step.pages, step.ratio, step.width)
    assert_scores(some, step.scores(REFERENCE)[index], TOLERANCE[torch.float32])


@pytest.mark.parametrize("products", [1, 100, 2000, 1 << 30])
def test_blocks_of_any_size_give_the_same(products, device):
    step = MIXED.build(device)
    assert_scores(step.scores(Score(products)), step.scores(REFERENCE), TOLERANCE[torch.float32])


def test_only_an_fp8_cache_quantises_the_query():
    q = torch.tensor([[[0.0] * 8, [448.0, 1.0, 17.0, 0.0, 0.0, 0.0, 0.0, -449.0]]])
    plain = Case(((3, 4),), channels=8).build("cpu").cache
    values, scales = query_for(plain, q)
    assert torch.equal(values, q) and scales.tolist() == [[1.0, 1.0]]
    values, scales = query_for(Case(((3, 4),), channels=8, layout="fp8").build("cpu").cache, q)
    assert scales.tolist() == [[2.0**-22, 1.0]]
    assert values.tolist() == [[[0.0] * 8, [448.0, 1.0, 16.0, 0.0, 0.0, 0.0, 0.0, -448.0]]]
