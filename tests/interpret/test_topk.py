"""Kernels run by Triton's interpreter: in a process of their own, in float32 only, at small shapes."""

import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))
import pytest
import torch
from hypothesis import given, settings
from select_cases import definition, entries_of
from test_select_topk import CASES, cases

from kernels.select import topk_radix
from kernels.select.topk_radix import LARGEST_BLOCK, LONG, TopK

REFERENCE = definition("topk")
CHUNKED = {"block": 128, "least_block": 128}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_chooses_the_best_entries(case):
    assert entries_of(case.run(TopK(), "cpu")) == [sorted(row) for row in case.expected()]


@given(case=cases())
@settings(max_examples=30, deadline=None)
def test_any_scores(case):
    assert entries_of(case.run(TopK(), "cpu")) == [sorted(row) for row in case.expected()]


@pytest.mark.parametrize(
    ("knob", "value", "allowed"),
    [
        ("finish", 2048, "from 1 to 1024"),
        ("block", 1, "from 128 to 32768"),
        ("block", 65536, "from 128 to 32768"),
        ("least_block", 1, "from 128 to 32768"),
        ("least_block", 65536, "from 128 to 32768"),
        ("warps", 64, "from 1 to 32"),
    ],
)
def test_a_knob_that_no_kernel_can_take_is_refused(knob, value, allowed):
    with pytest.raises(ValueError, match=f"^{knob}={value}: must be {allowed}$"):
        TopK(**{knob: value})


@pytest.mark.parametrize("kind", ["normal", "zeros", "levels", "outlier", "constant"])
@pytest.mark.parametrize(
    ("width", "k", "knobs"),
    [(900, 64, {"finish": 8}), (600, 33, CHUNKED), (300, 60, CHUNKED | {"finish": 4}), (LONG + 1, 512, {})],
)
def test_scores_of_every_kind_in_one_chunk_or_many(kind, width, k, knobs):
    scores = scores_of(kind, 4, width)
    visible = torch.tensor([width, k + 1, k, 17], dtype=torch.int32)
    assert entries_of(TopK(**knobs)(scores, visible, k)) == entries_of(REFERENCE(scores, visible, k))


@pytest.mark.parametrize(("finish", "expected"), [(None, [32, 32, 64, 64, 64]), (16, [16] * 5)])
def test_of_longer_rows_more_scores_are_left_to_be_compared(finish, expected, monkeypatch):
    """The last row takes two launches."""
    left = []

    class Launches:
        def __getitem__(self, grid):
            return lambda *_, FINISH, **__: left.append(FINISH)

    monkeypatch.setattr(topk_radix, "_choose", Launches())
    for width in (64, LONG, LONG + 1, 40_000):
        TopK(finish=finish)(torch.zeros(1, width), torch.zeros(1, dtype=torch.int32), 8)
    assert left == expected


def test_rows_that_lie_apart():
    scores = scores_of("normal", 6, 320)[::2, 16:80]
    visible = torch.tensor([64, 9, 40], dtype=torch.int32)
    assert entries_of(TopK()(scores, visible, 10)) == entries_of(REFERENCE(scores, visible, 10))


def test_refuses_what_no_program_can_hold():
    class Model:
        topk = LARGEST_BLOCK // 2

    assert TopK().refuses(Model) is None
    Model.topk += 1
    assert str(Model.topk) in TopK().refuses(Model)


def scores_of(kind: str, rows: int, width: int) -> torch.Tensor:
    scores = torch.randn(rows, width, generator=torch.Generator().manual_seed(width))
    if kind == "zeros":
        return (scores - 1).relu()
    if kind == "levels":
        return scores.round()
    if kind == "constant":
        return torch.full_like(scores, -3.0)
    if kind == "outlier":
        scores[:, width // 3] = 1e30
        scores[:, width // 2] = -1e30
    return scores


def test_knobs_that_size_a_block_are_powers_of_two():
    with pytest.raises(ValueError, match="finish=48: must be a power of two"):
        TopK(finish=48)
