import pytest
import torch
from select_cases import Case, definition, implementations

from kernels.contracts import Batch, Rows

FAST = implementations("shortcut")
ALL = {"reference": definition("shortcut"), **FAST}
GEOMETRIES = [(4, 2), (4, 512), (4, 1024), (4, 768), (128, 3), (1, 3), (3, 6), (7, 1)]
SHORT_AND_LONG = Case(((0, 7), (13, 14), (9, 13), (2, 3)), padding=2)  # ratio 4; topk 2: only rows of 12 and beyond


def decode(lengths: list[int], device: str) -> Batch:
    return Case(tuple((length - 1, length) for length in lengths)).batch(device)


def scored_rows(shortcut, batch: Batch, ratio: int, topk: int) -> list[int]:
    scored = shortcut(batch, ratio, topk)
    if scored.index is None:
        return list(range(len(batch.rows.positions)))
    assert scored.index.dtype == torch.int64 and scored.index.device == batch.rows.positions.device
    assert scored.skips_all == (len(scored.index) == 0)
    return scored.index.tolist()


@pytest.mark.parametrize("shortcut", ALL.values(), ids=ALL.keys())
@pytest.mark.parametrize(("ratio", "topk"), GEOMETRIES)
def test_no_row_that_needs_scores_is_left_out(shortcut, ratio, topk, device):
    for length in range(topk * ratio - 1, topk * ratio + ratio + 1):
        batch = decode([1, length, 2], device)
        rows = scored_rows(shortcut, batch, ratio, topk)
        assert rows == sorted(set(rows))
        if length // ratio > topk:
            assert 1 in rows


@pytest.mark.parametrize("shortcut", FAST.values(), ids=FAST.keys())
@pytest.mark.parametrize(("ratio", "topk"), GEOMETRIES)
def test_skips_up_to_the_last_token_before_one_more_entry(shortcut, ratio, topk, device):
    longest = topk * ratio + ratio - 1
    for length in range(max(topk * ratio - 1, 1), longest + 1):
        assert shortcut(decode([length, 1], device), ratio, topk).skips_all
    assert not shortcut(decode([longest + 1], device), ratio, topk).skips_all


def test_flash_and_pro_skip_to_2051_and_4099():
    for length, topk, skips in [(2051, 512, True), (2052, 512, False), (4099, 1024, True), (4100, 1024, False)]:
        for shortcut in FAST.values():
            assert shortcut(decode([length], "cpu"), 4, topk).skips_all == skips


@pytest.mark.parametrize("lengths", [[3, 12], [12, 3]])
def test_one_long_row_decides_for_the_batch(lengths, device):
    batch = decode(lengths, device)
    assert FAST["shortcut_batch"](batch, 4, 2).index is None
    assert scored_rows(FAST["shortcut_row"], batch, 4, 2) == [lengths.index(12)]


def test_row_scores_only_tokens_past_the_boundary(device):
    batch = SHORT_AND_LONG.batch(device)
    expected = [row for row, position in enumerate(batch.rows.positions.tolist()) if (position + 1) // 4 > 2]
    assert expected == [7, 10, 11]
    assert scored_rows(FAST["shortcut_row"], batch, 4, 2) == expected


def test_row_never_scores_a_padded_row(device):
    rows = SHORT_AND_LONG.rows(device)
    poison = Rows(rows.positions.masked_fill(~rows.valid, 100), rows.request, rows.valid)
    batch = SHORT_AND_LONG.batch(device)
    poisoned = Batch(poison, batch.query_start_loc, batch.seq_lens, batch.max_seq_len)
    assert scored_rows(FAST["shortcut_row"], poisoned, 4, 2) == [7, 10, 11]


@pytest.mark.parametrize("shortcut", FAST.values(), ids=FAST.keys())
def test_a_short_batch_needs_nothing_from_the_device(shortcut):
    batch = Batch(
        Rows(*(torch.zeros(3, dtype=dtype, device="meta") for dtype in (torch.int32, torch.int32, torch.bool))),
        torch.zeros(4, dtype=torch.int32, device="meta"),
        torch.zeros(3, dtype=torch.int32, device="meta"),
        max_seq_len=2051,
    )
    assert shortcut(batch, 4, 512).skips_all
