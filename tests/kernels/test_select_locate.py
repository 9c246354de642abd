from dataclasses import replace

import pytest
import torch
from select_cases import Case, definition, implementations

from kernels.contracts import Pages, Rows, Scored

FAST = implementations("locate")
ALL = {"reference": definition("locate"), **FAST}
MIXED = Case(((0, 17), (30, 31), (90, 97), (2, 3), (45, 46)), padding=3)
GEOMETRIES = [
    MIXED,
    replace(MIXED, page_size=1),
    replace(MIXED, page_size=2, padding=0),
    replace(MIXED, page_size=64),
    replace(MIXED, page_size=85, seed=1),
    replace(MIXED, ratio=1),
    replace(MIXED, ratio=3, page_size=5),
    replace(MIXED, ratio=128, page_size=2),
    Case(((0, 1),)),
    Case(((299, 300),), ratio=1, page_size=64),
]


def none(device: str) -> Scored:
    return Scored(torch.empty(0, dtype=torch.int64, device=device))


def choose(case: Case, index: list[int] | None, topk: int, device: str) -> tuple[torch.Tensor | None, Scored]:
    """Arbitrary entries for the scored rows, for a padded row too, which must not use them."""
    visible = case.rows("cpu").visible(case.ratio).tolist()
    scored = range(len(visible)) if index is None else index
    if not scored:
        return None, none(device)
    chosen = torch.full((len(scored), topk), -1, dtype=torch.int32)
    for row, token in enumerate(scored):
        entries = torch.randperm(visible[token], generator=torch.Generator().manual_seed(token))[:topk]
        chosen[row, : len(entries)] = entries
        if token >= len(visible) - case.padding:
            chosen[row] = 0
    return chosen.to(device), Scored(None if index is None else torch.tensor(index, device=device))


def by_hand(chosen, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int) -> tuple[list, list]:
    tokens = len(rows.positions)
    index = list(range(tokens)) if scored.index is None else scored.index.tolist()
    slots, lengths = [], []
    for token in range(tokens):
        entries = list(range((int(rows.positions[token]) + 1) // ratio))
        if token in index:
            entries = [entry for entry in chosen[index.index(token)].tolist() if entry != -1]
        if not rows.valid[token]:
            entries = []
        table = pages.block_table[int(rows.request[token])].tolist()
        row = [table[entry // pages.page_size] * pages.page_size + entry % pages.page_size for entry in entries]
        slots.append(row + [-1] * (width - len(row)))
        lengths.append(len(row))
    return slots, lengths


def check(locate, chosen, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int) -> None:
    before = None if chosen is None else chosen.clone()
    slots, lengths = locate(chosen, scored, rows, pages, ratio, width)
    expected = by_hand(chosen, scored, rows, pages, ratio, width)
    assert (slots.tolist(), lengths.tolist()) == expected
    assert slots.shape == (len(rows.positions), width) and slots.dtype == lengths.dtype == torch.int32
    assert chosen is None or torch.equal(chosen, before)


@pytest.mark.parametrize("case", GEOMETRIES, ids=repr)
@pytest.mark.parametrize("locate", ALL.values(), ids=ALL.keys())
def test_unscored_rows_take_all_visible_entries(locate, case, device):
    longest = max(stop for _, stop in case.spans) // case.ratio
    for width in (longest, longest + 70):
        check(locate, None, none(device), case.rows(device), case.pages(device), case.ratio, width)


@pytest.mark.parametrize("topk", [1, 3, 6, 768])
@pytest.mark.parametrize("case", GEOMETRIES, ids=repr)
@pytest.mark.parametrize("locate", ALL.values(), ids=ALL.keys())
def test_scored_rows_take_what_was_chosen(locate, case, topk, device):
    rows, pages = case.rows(device), case.pages(device)
    chosen, scored = choose(case, None, topk, device)
    check(locate, chosen, scored, rows, pages, case.ratio, topk)
    visible = rows.visible(case.ratio)
    long = (visible > topk).nonzero().squeeze(1).tolist()
    chosen, scored = choose(case, long, topk, device)
    check(locate, chosen, scored, rows, pages, case.ratio, topk)


@pytest.mark.parametrize("locate", ALL.values(), ids=ALL.keys())
@pytest.mark.parametrize("ratio", [4, 128])
def test_every_residue_of_the_position(locate, ratio, device):
    case = Case(((0, 3 * ratio + 1),), ratio=ratio, page_size=2)
    slots, lengths = locate(None, none(device), case.rows(device), case.pages(device), ratio, 3)
    assert lengths.tolist() == [(position + 1) // ratio for position in range(3 * ratio + 1)]
    assert (slots >= 0).sum(1).tolist() == lengths.tolist()


@pytest.mark.parametrize("topk", [2, 512, 1024])
@pytest.mark.parametrize("locate", ALL.values(), ids=ALL.keys())
def test_short_rows_up_to_the_boundary(locate, topk, device):
    lengths = range(topk * 4 - 1, topk * 4 + 4)
    case = Case(tuple((length - 1, length) for length in lengths), page_size=64)
    check(locate, None, none(device), case.rows(device), case.pages(device), 4, topk)


@pytest.mark.parametrize("locate", ALL.values(), ids=ALL.keys())
def test_no_entry_to_attend(locate, device):
    case = Case(((0, 100), (3, 4)), ratio=128, page_size=2, padding=1)
    slots, lengths = locate(None, none(device), case.rows(device), case.pages(device), 128, 0)
    assert slots.shape == (102, 0) and lengths.tolist() == [0] * 102


@pytest.mark.parametrize("scores", [None, [0, 20, 23]], ids=["all scored", "some scored"])
@pytest.mark.parametrize("locate", ALL.values(), ids=ALL.keys())
def test_padding_changes_nothing(locate, scores, device):
    padded, bare = MIXED, MIXED.without_padding()
    results = []
    for case in (padded, bare):
        chosen, scored = choose(case, scores, 24, device)
        results.append(locate(chosen, scored, case.rows(device), case.pages(device), 4, 24))
    real = len(bare.rows("cpu").positions)
    for with_padding, without in zip(*results, strict=True):
        assert torch.equal(with_padding[:real], without)
    assert (results[0][0][real:] == -1).all() and (results[0][1][real:] == 0).all()


@pytest.mark.parametrize("locate", ALL.values(), ids=ALL.keys())
def test_the_last_page_that_int32_slots_can_name(locate, device):
    page = (2**31 - 1) // 64
    rows = Case(((255, 256),)).rows(device)
    pages = Pages(torch.tensor([[page]], dtype=torch.int32, device=device), 64, torch.tensor([-1], device=device))
    chosen = torch.tensor([[63, 0]], dtype=torch.int32, device=device)
    assert locate(chosen, Scored(None), rows, pages, 4, 2)[0].tolist() == [[2**31 - 1, page * 64]]
    assert locate(None, none(device), rows, pages, 4, 64)[0].tolist() == [list(range(page * 64, page * 64 + 64))]
