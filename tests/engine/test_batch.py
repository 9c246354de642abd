import torch

from pipeline.engine.batch import Part, entries_of, step_inputs
from pipeline.engine.pages import PagePool, Space

SPACES = {"window": Space(2, 1, 3), "csa.entries": Space(2, 3, None), "csa.state": Space(3, 1, 5)}


def inputs(parts, padding=0):
    pools = {name: PagePool(space) for name, space in SPACES.items()}
    for part in parts:
        for pool in pools.values():
            pool.extend(part.request, part.start, part.start + part.tokens)
    return step_inputs(parts, pools, 4, torch.device("cpu"), padding), pools


def slot(pools, space, request, row):
    page_size = SPACES[space].page_size
    return pools[space].tables[request][row // page_size] * page_size + row % page_size


def test_rows_and_lengths():
    step, _ = inputs([Part(7, 4, 3), Part(2, 0, 2)], padding=1)
    assert step.tokens == 5
    assert step.batch.rows.positions.tolist() == [4, 5, 6, 0, 1, 0]
    assert step.batch.rows.request.tolist() == [0, 0, 0, 1, 1, 0]
    assert step.batch.rows.valid.tolist() == [True] * 5 + [False]
    assert step.batch.query_start_loc.tolist() == [0, 3, 5]
    assert step.batch.seq_lens.tolist() == [7, 2]
    assert step.batch.max_seq_len == 7
    assert step.batch.rows.visible(3).tolist() == [1, 2, 2, 0, 0, 0]


def test_only_the_token_that_closes_a_window_has_an_entry_slot():
    step, pools = inputs([Part(7, 4, 3), Part(2, 0, 2)], padding=1)
    mapping = step.pages["csa.entries"].slot_mapping.tolist()
    assert mapping == [-1, slot(pools, "csa.entries", 7, 1), -1, -1, -1, -1]


def test_window_slots_are_the_last_tokens_in_order():
    step, pools = inputs([Part(7, 4, 3), Part(2, 0, 2)], padding=1)
    expected = [
        [slot(pools, "window", 7, row) for row in range(1, 5)],
        [slot(pools, "window", 7, row) for row in range(2, 6)],
        [slot(pools, "window", 7, row) for row in range(3, 7)],
        [slot(pools, "window", 2, 0), -1, -1, -1],
        [slot(pools, "window", 2, 0), slot(pools, "window", 2, 1), -1, -1],
        [-1] * 4,
    ]
    assert step.window_slots.tolist() == expected
    assert step.window_lengths.tolist() == [4, 4, 4, 1, 2, 0]


def test_entries_of_inverts_the_block_table():
    step, pools = inputs([Part(7, 0, 13), Part(2, 0, 7)])
    slots = torch.full((20, 3), -1, dtype=torch.int32)
    slots[12] = torch.tensor([slot(pools, "csa.entries", 7, row) for row in (3, 0, 2)])
    slots[19, :2] = torch.tensor([slot(pools, "csa.entries", 2, 1), slot(pools, "csa.entries", 7, 1)])
    entries = entries_of(slots, step.batch.rows, step.pages["csa.entries"])
    assert entries[12].tolist() == [3, 0, 2]
    assert entries[19].tolist() == [1, -2, -1]
    assert (entries[:12] == -1).all()
