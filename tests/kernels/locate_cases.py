"""Steps to locate in: who was scored, what was chosen, and what every implementation must answer."""

from dataclasses import dataclass

import torch
from kernel_cases import pages_of, ragged_rows, shuffled_table
from torch import Tensor

from kernels.contracts import Pages, Rows, Scored
from kernels.select.reference import Locate as Reference


@dataclass(frozen=True)
class Case:
    """`scored`: all rows, none, those that see more than `width` entries, or some of the others as well."""

    spans: tuple[tuple[int, int], ...] = ((0, 5), (30, 37), (2, 3))
    padding: int = 2
    width: int = 4
    ratio: int = 4
    page_size: int = 3
    scored: str = "all"
    seed: int = 0

    def arguments(self, device: str) -> dict:
        generator = torch.Generator().manual_seed(self.seed)
        rows = ragged_rows(list(self.spans), self.padding, "cpu")
        visible = rows.visible(self.ratio)
        scored = self._scored(rows, visible)
        index = range(len(visible)) if scored.index is None else scored.index.tolist()
        chosen = torch.full((len(index), self.width), -1, dtype=torch.int32)
        for row, token in enumerate(index):
            drawn = torch.randperm(int(visible[token]), generator=generator)[: self.width]
            chosen[row, : len(drawn)] = drawn.int()
        return {
            "chosen": None if scored.skips_all else chosen.to(device),
            "scored": Scored(None if scored.index is None else scored.index.to(device)),
            "rows": Rows(rows.positions.to(device), rows.request.to(device), rows.valid.to(device)),
            "pages": self._pages(rows, device),
            "ratio": self.ratio,
            "width": self.width,
        }

    def _scored(self, rows: Rows, visible: Tensor) -> Scored:
        if self.scored == "all":
            return Scored(None)
        must = visible > self.width
        chance = {"none": 0.0, "long": 0.0, "some": 0.5}[self.scored]
        lucky = torch.rand(len(visible), generator=torch.Generator().manual_seed(self.seed)) < chance
        return Scored(((must | lucky) & rows.valid).nonzero().flatten())

    def _pages(self, rows: Rows, device: str) -> Pages:
        """The block table is a slice of a wider one, whose other columns hold no page."""
        columns = max(stop for _, stop in self.spans) // self.ratio // self.page_size + 1
        table = torch.full((len(self.spans), columns + 3), 1 << 30, dtype=torch.int32)
        table[:, :columns] = shuffled_table(len(self.spans), columns, self.seed, "cpu")
        pages = pages_of(rows, table, self.page_size, self.ratio)
        return Pages(table.to(device)[:, :columns], self.page_size, pages.slot_mapping.to(device))


CASES = [
    Case(),
    Case(scored="none", width=9),
    Case(scored="long"),
    Case(scored="some", width=6, seed=3),
    Case(scored="long", width=1, ratio=1, page_size=1),
    Case(spans=((40, 41),), padding=0, width=3, page_size=2),
    Case(spans=((0, 3),), padding=1, width=16, ratio=1, scored="none"),
    Case(spans=((0, 0),), padding=3, width=5, scored="none"),
    Case(spans=((0, 0),), padding=0, scored="none"),
    Case(spans=((9, 12), (2, 4)), width=0, ratio=128, scored="none"),
    Case(spans=((60, 70), (0, 1)), width=20, ratio=2, page_size=4, scored="some"),
]


def assert_located(locate, case: Case, device: str, ordered: bool) -> None:
    """Lengths and slots of the reference; without `ordered`, short rows in any order where some rows were scored."""
    arguments = case.arguments("cpu")
    slots, lengths = (x.cpu() for x in locate(**case.arguments(device)))
    expected_slots, expected_lengths = Reference()(**arguments)
    assert slots.dtype == lengths.dtype == torch.int32
    assert torch.equal(lengths, expected_lengths)
    column = torch.arange(case.width)
    assert torch.equal(slots >= 0, column < lengths[:, None])
    if not ordered and case.scored != "all":
        short = arguments["rows"].visible(case.ratio) <= case.width
        slots[short], expected_slots[short] = slots[short].sort(1).values, expected_slots[short].sort(1).values
    assert torch.equal(slots, expected_slots)
