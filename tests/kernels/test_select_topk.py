from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from select_cases import INF, NAN, definition, entries_of, implementations

FAST = implementations("topk")
ALL = {"reference": definition("topk"), **FAST}


def best(scores: list[float], visible: int, topk: int) -> list[int]:
    """Entry numbers by descending score, then ascending entry."""
    rank = [-INF if score != score else score for score in scores]
    return sorted(range(visible), key=lambda entry: (-rank[entry], entry))[:topk]


@dataclass(frozen=True)
class Case:
    rows: list[list[float]]
    visible: list[int]
    topk: int

    def run(self, topk, device: str) -> torch.Tensor:
        scores = torch.tensor(self.rows, device=device)
        chosen = topk(scores, torch.tensor(self.visible, dtype=torch.int32, device=device), self.topk)
        assert chosen.shape == (len(self.rows), self.topk) and chosen.dtype == torch.int32
        return chosen.cpu()

    def expected(self) -> list[list[int]]:
        return [best(row, visible, self.topk) for row, visible in zip(self.rows, self.visible, strict=True)]


CASES = {
    "all equal": Case([[0.5] * 7, [-2.0] * 7], [7, 6], 3),
    "all zero": Case([[0.0, -0.0, 0.0, -0.0, 0.0]], [5], 3),
    "ties at the threshold": Case([[1.0, 3.0, 1.0, 2.0, 1.0, 1.0]], [6], 4),
    "a zero between signs": Case([[-1.0, 0.0, 2.0, 0.0, -0.5, 0.0]], [6], 3),
    "one NaN": Case([[1.0, NAN, 3.0, 2.0], [NAN, 1.0, -INF, 2.0]], [4, 4], 3),
    "all NaN": Case([[NAN] * 5], [4], 3),
    "all -inf": Case([[-INF] * 4, [-INF] * 4], [4, 3], 2),
    "fewer finite than topk": Case([[-INF, NAN, 4.0, -INF, NAN, 5.0]], [6], 4),
    "infinite": Case([[INF, 1.0, INF, 2.0, INF]], [5], 2),
    "smallest finite is above -inf": Case([[-INF, -3.4028234663852886e38, -INF]], [3], 1),
    "poison beyond visible": Case([[1.0, 2.0, INF, NAN, INF], [NAN, -INF, 9.0, INF, NAN]], [2, 2], 3),
    "poison beyond visible, wide": Case([[1.0, 2.0, 3.0, INF, NAN, INF]], [3], 2),
    "nothing visible": Case([[INF, NAN, 1.0], [3.0, 1.0, 2.0]], [0, 3], 2),
    "no entry at all": Case([[], []], [0, 0], 3),
    "narrower than topk": Case([[1.0, 2.0]], [2], 6),
    "as wide as topk": Case([[1.0, 2.0, 3.0], [1.0, 2.0, INF]], [3, 2], 3),
    "one of one": Case([[-7.0]], [1], 1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("topk", ALL.values(), ids=ALL.keys())
def test_chooses_the_best_entries(topk, case, device):
    assert entries_of(case.run(topk, device)) == [sorted(row) for row in case.expected()]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_reference_orders_by_score_then_entry(case, device):
    for row, expected in zip(case.run(ALL["reference"], device).tolist(), case.expected(), strict=True):
        assert row == expected + [-1] * (case.topk - len(expected))


score = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN]), st.floats(width=32, allow_nan=False, allow_subnormal=False)
)


@st.composite
def cases(draw) -> Case:
    width = draw(st.integers(1, 12))
    rows = draw(st.lists(st.lists(score, min_size=width, max_size=width), min_size=1, max_size=3))
    visible = draw(st.lists(st.integers(0, width), min_size=len(rows), max_size=len(rows)))
    return Case(rows, visible, draw(st.integers(1, 14)))


@given(case=cases())
@settings(max_examples=200, deadline=None)
def test_any_scores(case):
    expected = case.expected()
    ordered = [[entry for entry in row if entry >= 0] for row in case.run(ALL["reference"], "cpu").tolist()]
    assert ordered == expected
    for topk in FAST.values():
        assert entries_of(case.run(topk, "cpu")) == [sorted(row) for row in expected]


@pytest.mark.parametrize(("width", "k"), [(513, 512), (2048, 512), (1025, 1024), (800, 768), (1500, 6), (70, 64)])
@pytest.mark.parametrize("topk", FAST.values(), ids=FAST.keys())
def test_real_widths_with_many_zeros(topk, width, k, device):
    generator = torch.Generator().manual_seed(width)
    scores = torch.randn(9, width, generator=generator).relu()
    scores[::3, ::5] = NAN
    visible = torch.tensor([width, width - 1, k + 1, k, k - 1, 1, 0, width // 2, width], dtype=torch.int32)
    expected = entries_of(ALL["reference"](scores, visible, k))
    assert [len(row) for row in expected] == visible.clamp(max=k).tolist()
    assert entries_of(topk(scores.to(device), visible.to(device), k)) == expected


@pytest.mark.parametrize("topk", ALL.values(), ids=ALL.keys())
def test_leaves_its_input_alone_and_needs_no_neighbour(topk, device):
    scores = torch.tensor([[1.0, NAN, 3.0, 3.0], [2.0, 2.0, -INF, NAN]], device=device)
    visible = torch.tensor([4, 3], dtype=torch.int32, device=device)
    before = scores.clone()
    both = topk(scores, visible, 2)
    assert torch.equal(both[:1], topk(scores[:1], visible[:1], 2))
    assert torch.equal(both[1:], topk(scores[1:], visible[1:], 2))
    torch.testing.assert_close(scores, before, rtol=0, atol=0, equal_nan=True)
