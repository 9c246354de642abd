"""The layer against transformers' DeepseekV4Attention, in float32 with unquantised caches."""

from dataclasses import replace
from itertools import pairwise, permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.layers import Shape, fed_in, joined, sets

TOLERANCE = 1e-5
VARIANTS = ("reference", "never", "batch", "row", "direct", "gathered")
REAL_HEAD = ("model.head_dim=512", "model.window=128", "model.index_heads=8", "model.hca_ratio=128")
SHAPES = [
    Shape("swa"),
    Shape("csa"),
    Shape("hca"),
    Shape("csa", overrides=("model.compress_ratio=1", "model.topk=3", "model.index_heads=8"), seed=1),
    Shape("csa", overrides=("model.compress_ratio=3", "model.topk=6", "model.index_heads=7"), seed=2),
    Shape("hca", overrides=("model.hca_ratio=5", "model.window=3"), seed=3),
    Shape("swa", overrides=REAL_HEAD, seed=4),
    Shape("csa", overrides=(*REAL_HEAD, "model.topk=24"), seed=5),
    Shape("hca", overrides=REAL_HEAD, seed=6),
]


def assert_same(shape: Shape, hidden: torch.Tensor, fed, truth) -> None:
    """Outputs agree wherever the selections do; elsewhere scores are tied, and the oracle breaks ties as it likes."""
    expected, chosen = truth
    if chosen is None:
        same = torch.ones(len(hidden), dtype=torch.bool)
    else:
        same = torch.tensor([mine == theirs for mine, theirs in zip(sets(fed.selected), chosen, strict=True)])
        assert_tied(shape, hidden, fed.selected, chosen, (~same).nonzero().flatten().tolist())
    torch.testing.assert_close(fed.output[same], expected[same], atol=TOLERANCE, rtol=TOLERANCE)


def assert_tied(shape: Shape, hidden, selected, chosen, rows: list[int]) -> None:
    assert len(rows) <= 0.05 * len(hidden)
    if not rows:
        return
    session, captured = shape.session("reference"), []
    stages = session.layer.stages
    score = stages.select.score

    def recorded(*call):
        captured.append(score(*call))
        return captured[-1]

    session.layer = replace(session.layer, stages=replace(stages, select=replace(stages.select, score=recorded)))
    session.feed({"a": hidden})
    for row in rows:
        mine, theirs = set(selected[row].tolist()) - {-1}, chosen[row]
        assert len(mine) == len(theirs)
        swapped = captured[0][row, list(mine ^ theirs)]
        assert float(swapped.max() - swapped.min()) <= 1e-6
        if swapped.unique().numel() == 1:
            assert sum(mine) <= sum(theirs), "of equal scores the lowest entry wins"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_one_shot_prefill(shape: Shape, variant: str):
    hidden = shape.hidden(150)
    assert_same(shape, hidden, shape.session(variant).feed({"a": hidden})["a"], shape.oracle()(hidden))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", SHAPES[:3] + SHAPES[7:], ids=repr)
def test_prefill_then_decode(shape: Shape, variant: str):
    hidden = shape.hidden(60)
    fed = fed_in(shape.session(variant), "a", hidden, [37] + [1] * 23)
    assert_same(shape, hidden, fed, shape.oracle()(hidden))


@pytest.mark.parametrize("shape", SHAPES[:6], ids=repr)
@settings(max_examples=8, deadline=None)
@given(cuts=st.sets(st.integers(1, 89), max_size=12))
def test_chunked_at_any_split(shape: Shape, cuts: set[int]):
    hidden = shape.hidden(90)
    sizes = [end - start for start, end in pairwise([0, *sorted(cuts), 90])]
    assert_same(shape, hidden, fed_in(shape.session("row"), "a", hidden, sizes), shape.oracle()(hidden))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", SHAPES[:3], ids=repr)
def test_neighbours_and_their_order_do_not_matter(shape: Shape, variant: str):
    lengths = {"a": 12, "b": 23, "c": 1}
    hidden = {name: shape.hidden(length, seed) for seed, (name, length) in enumerate(lengths.items())}
    truth = {name: shape.oracle()(states) for name, states in hidden.items()}
    for order in permutations(lengths):
        session = shape.session(variant)
        first = session.feed({name: hidden[name][:-1] for name in order if lengths[name] > 1}, padding=3)
        last = session.feed({name: hidden[name][-1:] for name in reversed(order)}, padding=2)
        for name in order:
            fed = joined([*([first[name]] if name in first else []), last[name]])
            assert_same(shape, hidden[name], fed, truth[name])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["swa", "csa", "hca"])
def test_flash_at_full_dimensions_where_topk_binds(kind):
    shape = Shape(kind, "v4_flash", ("model.index_heads=64",))
    hidden = shape.hidden(2300)
    session = shape.session("row", max_tokens=2304, max_requests=1)
    fed = fed_in(session, "a", hidden, [2047, 1, 1, 2, 1, 200, 48])
    truth = shape.oracle()(hidden)
    assert_same(shape, hidden, fed, truth)
