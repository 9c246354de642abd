"""Rows that attend all they see, at any width; and a consumer that was captured before lengths changed."""

import torch
from locate_cases import Case
from torch import Tensor

from kernels.contracts import Pages, Rows
from kernels.cover.reference import Cover
from kernels.cover.widths import columns

CAPACITY = 512
CASES = [
    Case(),
    Case(ratio=128, page_size=2),
    Case(spans=((0, 3),), padding=1, ratio=1),
    Case(spans=((600, 640), (9, 10), (0, 0)), ratio=1, page_size=5, padding=0, seed=1),
    Case(spans=((0, 2),), padding=0),
]
WIDTHS = ("exact", "adaptive", "full")


def inputs(case: Case, device: str) -> tuple[Rows, Pages, int, int, int]:
    given = case.arguments(device)
    longest = max(stop for _, stop in case.spans) // case.ratio
    return given["rows"], given["pages"], case.ratio, longest, max(CAPACITY, longest + 1)


def assert_covered(cover, case: Case, device: str) -> None:
    """As the reference as far as it goes, -1 behind; rows as far apart as the width says."""
    expected, counts = Cover()(*inputs(case, "cpu"))
    slots, lengths = cover(*inputs(case, device))
    *_, longest, capacity = inputs(case, "cpu")
    assert slots.dtype == lengths.dtype == torch.int32
    assert slots.shape[1] == columns(cover.width, longest, capacity) >= longest
    assert slots.stride(0) == max(1, longest) if cover.width == "exact" else slots.stride(0) == capacity
    assert torch.equal(lengths.cpu(), counts)
    assert torch.equal(slots[:, :longest].cpu(), expected) and (slots[:, longest:] == -1).all()


class Persistent:
    """One buffer for all steps, as wide as any could need; what was captured on it reads it at that stride for ever."""

    def __init__(self, rows: int, capacity: int, device: str):
        self.slots = torch.full((rows, capacity), -1, dtype=torch.int32, device=device)

    def narrowed(self, width: int) -> Tensor:
        return self.slots[:, :width]

    def repacked(self, width: int) -> Tensor:
        """The fault of vLLM #50004: rows side by side at the new width."""
        return self.slots.view(-1)[: len(self.slots) * width].view(-1, width)
