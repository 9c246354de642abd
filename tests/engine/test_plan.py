import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.pages import NULL_PAGE, Space
from pipeline.engine.plan import Plan, plan
from pipeline.work.schedule import Step, schedule
from pipeline.work.workload import Request
from tests.engine.layers import CPU
from tests.engine.runnable import asked

WINDOW, RATIO = 6, 3
SPACES = {
    "window": Space(4, 1, WINDOW - 1),
    "csa.entries": Space(2, RATIO, None),
    "csa.state": Space(3, 1, 2 * RATIO - 1),
}


def planned(requests: list[Request], seats: int, budget: int = 8, seed: int = 0) -> tuple[list[Step], Plan]:
    steps = schedule(requests, seats, budget, True)
    return steps, plan(requests, steps, SPACES, WINDOW, seed, CPU)


def slot(pages, place: int, row: int) -> int:
    page = int(pages.block_table[place, row // pages.page_size])
    assert page != NULL_PAGE
    return page * pages.page_size + row % pages.page_size


def assert_every_row_read_is_the_row_meant(requests: list[Request], steps: list[Step], made: Plan) -> None:
    """Plays the steps on a memory that remembers which row of which request each slot holds."""
    memory = {name: {} for name in SPACES}
    for step, inputs, prefixes in zip(steps, made.inputs, made.prefixes, strict=True):
        for prefix in prefixes:
            cached = requests[prefix.request].cached_len
            for name, space in SPACES.items():
                rows = range(space.first_live_row(cached), space.rows(cached))
                for row, place in zip(rows, prefix.slots[name].tolist(), strict=True):
                    memory[name][place] = prefix.request, row
        tokens = [
            (place, chunk.request, position)
            for place, chunk in enumerate(step.chunks)
            for position in range(chunk.start, chunk.start + chunk.tokens)
        ]
        for name, space in SPACES.items():
            written = inputs.pages[name].slot_mapping.tolist()
            for (_, request, position), target in zip(tokens, written, strict=True):
                assert (target >= 0) == ((position + 1) % space.tokens_per_row == 0)
                if target >= 0:
                    memory[name][target] = request, position // space.tokens_per_row
        for (place, request, position), window in zip(tokens, inputs.window_slots.tolist(), strict=True):
            read = [memory["window"][each] for each in window if each >= 0]
            assert read == [(request, row) for row in range(max(0, position + 1 - WINDOW), position + 1)]
            for entry in range((position + 1) // RATIO):
                assert memory["csa.entries"][slot(inputs.pages["csa.entries"], place, entry)] == (request, entry)
            if (position + 1) % RATIO == 0:
                for row in range(max(0, position + 1 - 2 * RATIO), position + 1):
                    assert memory["csa.state"][slot(inputs.pages["csa.state"], place, row)] == (request, row)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_row_read_is_the_row_meant(data):
    requests = []
    for _ in range(data.draw(st.integers(1, 5))):
        prompt = data.draw(st.integers(1, 25))
        requests.append(asked(data.draw(st.integers(0, prompt - 1)), prompt, data.draw(st.integers(1, 6))))
    steps, made = planned(
        requests, data.draw(st.integers(1, 4)), data.draw(st.integers(4, 20)), data.draw(st.integers(0, 99))
    )
    assert_every_row_read_is_the_row_meant(requests, steps, made)


@pytest.mark.parametrize(
    ("seats", "reuses", "capacities"),
    [
        (1, True, {"window": 2, "csa.entries": 1, "csa.state": 2}),
        (3, False, {"window": 6, "csa.entries": 3, "csa.state": 6}),
    ],
)
def test_capacity_is_the_most_that_lives_at_once(seats, reuses, capacities):
    """Three requests of six tokens: two window pages, one of entries, two of state each."""
    _, made = planned([asked(0, 6)] * 3, seats, budget=18)
    assert {name: pool.capacity for name, pool in made.pools.items()} == capacities
    assert made.reuses_pages is reuses
    assert all(not pool.tables for pool in made.pools.values()), "all are done"


def test_a_long_request_lives_in_the_pages_of_its_window():
    """Decoding 40 tokens: the step writes row 40 - n and reads five before it, so two or three pages of 4 are alive."""
    _, made = planned([asked(5, 6, 35)], 1)
    assert made.pools["window"].capacity == 3
    assert made.pools["csa.entries"].capacity == 7
    assert made.reuses_pages


def test_who_joins_with_a_prefix_and_when():
    requests = [asked(10, 12, 2), asked(0, 4, 1), asked(7, 8, 1)]
    steps, made = planned(requests, 1)
    joined = [
        (step.chunks[0].request, [prefix.request for prefix in prefixes])
        for step, prefixes in zip(steps, made.prefixes, strict=True)
    ]
    assert joined == [(0, [0]), (0, []), (1, []), (2, [2])]
    rows = {name: len(slots) for name, slots in made.prefixes[0][0].slots.items()}
    assert rows == {"window": 5, "csa.entries": 3, "csa.state": 5}


def test_the_seed_shuffles_pages_and_nothing_else():
    requests = [asked(0, 20, 3), asked(9, 10, 3)]
    (_, one), (_, same), (_, other) = (planned(requests, 2, seed=seed) for seed in (0, 0, 1))
    tables = [[step.pages["window"].block_table.tolist() for step in made.inputs] for made in (one, same, other)]
    assert tables[0] == tables[1] != tables[2]
    assert [pool.capacity for pool in one.pools.values()] == [pool.capacity for pool in other.pools.values()]


def test_block_tables_are_as_wide_in_every_step_as_the_longest_request_needs():
    _, made = planned([asked(0, 6, 20), asked(0, 3, 2)], seats=2)
    widths = {name: {step.pages[name].block_table.shape[1] for step in made.inputs} for name in SPACES}
    longest = 6 + 20 - 1
    assert widths == {name: {SPACES[name].columns(longest)} for name in SPACES}
