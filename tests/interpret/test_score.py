"""Kernels run by Triton's interpreter: in a process of their own, in float32 only, at small shapes."""

import os
import sys
from dataclasses import replace
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))
import pytest
import torch
from kernel_cases import TOLERANCE
from select_cases import Case, definition
from test_select_score import MIXED, assert_scores

from kernels.select.score_paged import Score

REFERENCE = definition("score")
SMALL = Score(entries=16, rows_per_program=1)
SCORES = [
    SMALL,
    replace(SMALL, rows_per_program=4),
    replace(SMALL, rows_per_program=2, programs=1, heads_per_program=2),
    Score(programs=3, entries=32),
]
CASES = [
    MIXED,
    replace(MIXED, page_size=1),
    replace(MIXED, page_size=64, heads=7, channels=20, rotated=4),
    replace(MIXED, ratio=3, page_size=2, rotated=16),
    replace(MIXED, ratio=128, page_size=2),
    Case(((0, 3),)),
    Case(((3, 4),), heads=1),
    Case(((250, 251), (130, 131), (61, 62)), page_size=32),
]


@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_agrees_with_the_reference(score, case):
    step = case.build("cpu")
    assert_scores(step.scores(score), step.scores(REFERENCE), TOLERANCE[torch.float32])


@pytest.mark.parametrize("score", SCORES[:2], ids=repr)
def test_padding_changes_no_bit(score):
    padded, bare = MIXED.build("cpu").scores(score), MIXED.without_padding().build("cpu").scores(score)
    assert torch.equal(padded[: -MIXED.padding], bare)
    assert (padded[-MIXED.padding :] == -torch.inf).all()


def test_rows_of_a_block_in_any_order():
    step = MIXED.build("cpu")
    order = torch.randperm(len(step.q), generator=torch.Generator().manual_seed(5))
    rows = step.batch.rows.take(order)
    mixed = SCORES[1](
        step.q[order], step.weights[order], step.rope, rows, step.cache, step.pages, step.ratio, step.width
    )
    assert_scores(mixed, step.scores(REFERENCE)[order], TOLERANCE[torch.float32])


def test_short_rows_may_be_left_out():
    step, limit = MIXED.build("cpu"), 7
    expected, visible = step.scores(REFERENCE), step.batch.rows.visible(MIXED.ratio)
    assert 0 < (visible > limit).sum() < len(visible)
    expected[visible <= limit] = -torch.inf
    assert_scores(step.scores(replace(SMALL, skip_up_to=limit)), expected, TOLERANCE[torch.float32])


def test_without_fill_the_visible_scores_are_the_same():
    step = MIXED.build("cpu")
    expected, actual = step.scores(REFERENCE), step.scores(replace(SMALL, fill=False))
    seen = expected.isfinite()
    assert_scores(actual.where(seen, -torch.inf), expected, TOLERANCE[torch.float32])


def test_refuses_a_head_whose_pairs_begin_at_an_odd_channel():
    class Model:
        index_dim, rope_dim = 65, 64

    assert "65" in Score().refuses(Model)
    Model.index_dim = 128
    assert Score().refuses(Model) is None


def test_knobs_that_size_a_block_are_powers_of_two():
    with pytest.raises(ValueError, match="entries=48: must be a power of two"):
        Score(entries=48)
