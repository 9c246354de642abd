"""Top-k on the GPU at the widths of short and long contexts, rows by rows as a stable sort has it."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))
from select_cases import entries_of
from test_select_topk import CASES as SMALL_CASES

from kernels.select.topk_radix import TopK

INF, NAN = float("inf"), float("nan")
KINDS = ["normal", "zeros", "levels", "outlier", "constant", "special"]


@dataclass(frozen=True)
class Case:
    rows: int
    width: int
    topk: int
    kind: str = "normal"
    knobs: tuple[tuple[str, int], ...] = ()

    def scores(self) -> torch.Tensor:
        """The row stride is the width: what follows a row belongs to the next."""
        generator = torch.Generator("cuda").manual_seed(self.width + self.rows)
        scores = torch.randn(self.rows, self.width, generator=generator, device="cuda")
        if self.kind == "zeros":
            return (scores - 1.5).relu()
        if self.kind == "levels":
            return (scores * 4).round()
        if self.kind == "constant":
            return torch.full_like(scores, -3.0)
        if self.kind == "outlier":
            scores[:, self.width // 3], scores[:, self.width // 2] = 1e30, -INF
        if self.kind == "special":
            special = torch.tensor([NAN, INF, -INF, -0.0, 0.0, 1e-42, -1e-42], device="cuda")
            places = torch.rand(scores.shape, generator=generator, device="cuda") < 0.9
            return torch.where(places, special[(scores.abs() * 1e4).long() % 7], scores)
        return scores

    def visible(self) -> torch.Tensor:
        visible = torch.randint(0, self.width + 1, (self.rows,), generator=torch.Generator().manual_seed(self.rows))
        edges = [self.width, self.topk + 1, self.topk, self.topk - 1, 0, 1, self.width - 1]
        visible[: len(edges)] = torch.tensor(edges).clamp(0, self.width)[: self.rows]
        return visible.int().cuda()


CASES = [
    *(Case(9, 8192, 512, kind) for kind in KINDS),
    *(Case(9, 3000, 768, kind) for kind in KINDS),
    *(Case(7, 40000, 512, kind) for kind in KINDS),
    *(Case(600, 2048, 512, kind) for kind in KINDS),
    *(Case(9, 8193, 512, kind) for kind in KINDS),
    Case(64, 32768, 512),
    Case(64, 32768, 512, knobs=(("finish", 32),)),
    Case(1, 8192, 512),
    Case(70, 3000, 1),
    *(Case(700, 2048, 512, kind, (("warps", 2),)) for kind in KINDS),
    Case(64, 513, 512),
    Case(64, 8192, 1024),
    Case(33, 2049, 512),
    Case(520, 8192, 1024),
    Case(4096, 2048, 512),
    Case(3, 262144, 1024),
    Case(2, 262144, 512, "special"),
    Case(12, 100000, 6, "levels"),
    Case(5, 1, 512),
    Case(8, 20000, 6000),
    *(Case(9, 8192, 512, kind, (("warps", 4), ("finish", 64))) for kind in KINDS),
    Case(9, 8192, 512, knobs=(("warps", 16), ("finish", 1))),
    Case(9, 32768, 512, knobs=(("block", 32768),)),
]


def expected(scores: torch.Tensor, visible: torch.Tensor, topk: int) -> torch.Tensor:
    column = torch.arange(scores.shape[1], device=scores.device)
    known = torch.where((column < visible[:, None]) & ~scores.isnan(), scores, -INF)
    best = known.argsort(descending=True, stable=True)[:, :topk]
    best = torch.nn.functional.pad(best, (0, topk - best.shape[1]), value=-1)
    return best.masked_fill(torch.arange(topk, device=scores.device) >= visible[:, None], -1).int()


def assert_same_sets(actual: torch.Tensor, wanted: torch.Tensor, visible: torch.Tensor) -> None:
    assert actual.dtype == torch.int32 and actual.shape == wanted.shape
    column = torch.arange(actual.shape[1], device=actual.device)
    assert torch.equal(actual >= 0, column < visible[:, None])
    assert torch.equal(actual.sort(1).values, wanted.sort(1).values)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_equals_a_stable_sort(case):
    scores, visible = case.scores(), case.visible()
    before = scores.clone()
    chosen = TopK(**dict(case.knobs))(scores, visible, case.topk)
    assert_same_sets(chosen, expected(scores, visible, case.topk), visible)
    assert torch.equal(scores.view(torch.int32), before.view(torch.int32))


@pytest.mark.parametrize("case", SMALL_CASES.values(), ids=SMALL_CASES.keys())
def test_chooses_the_best_entries(case):
    assert entries_of(case.run(TopK(), "cuda")) == [sorted(row) for row in case.expected()]


@pytest.mark.parametrize("width", [2048, 8192, 32768])
def test_a_graph_captured_short_is_right_when_long(width):
    scores = torch.randn(16, width, device="cuda")
    visible = torch.full((16,), 3, dtype=torch.int32, device="cuda")
    TopK()(scores, visible, 512)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chosen = TopK()(scores, visible, 512)
    scores.copy_(torch.randn(16, width, device="cuda"))
    visible.copy_(torch.randint(500, width + 1, (16,), device="cuda").int())
    graph.replay()
    assert_same_sets(chosen, expected(scores, visible, 512), visible)
