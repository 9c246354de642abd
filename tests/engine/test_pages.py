from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.pages import NULL_PAGE, PagePool, Space

WINDOW = Space(page_size=4, tokens_per_row=1, lookback=7)
ENTRIES = Space(page_size=2, tokens_per_row=3, lookback=None)


def test_entries_need_a_page_only_when_a_window_closes():
    pool = PagePool(ENTRIES)
    pool.extend(0, 0, 2)
    assert pool.block_table([0]).tolist() == [[NULL_PAGE]]
    pool.extend(0, 2, 3)
    assert pool.block_table([0]).tolist() == [[1]]
    pool.extend(0, 3, 9)
    assert pool.block_table([0]).tolist() == [[1, 2]]
    assert pool.high_water == 2


def test_window_gives_back_pages_that_no_step_reads_again():
    pool = PagePool(WINDOW, capacity=4)
    pool.extend(0, 0, 12)
    first = pool.block_table([0])[0].tolist()
    assert NULL_PAGE not in first
    pool.extend(0, 11, 12)
    assert pool.block_table([0])[0].tolist() == [NULL_PAGE, *first[1:]]
    pool.extend(1, 0, 8)
    assert first[0] in pool.block_table([1])[0].tolist()
    assert pool.taken == 5


def test_cached_prefix_leaves_the_columns_before_the_window_empty():
    pool = PagePool(WINDOW)
    pool.extend(0, 20, 21)
    table = pool.block_table([0])[0]
    assert table[:3].tolist() == [NULL_PAGE] * 3
    assert (table[3:] != NULL_PAGE).all()


def test_no_page_has_two_owners_and_a_dropped_request_returns_all():
    pool = PagePool(WINDOW, capacity=9, seed=3)
    for request in range(3):
        pool.extend(request, 0, 12)
    owned = pool.block_table([0, 1, 2])
    assert sorted(owned.flatten().tolist()) == list(range(1, 10))
    pool.drop(1)
    pool.extend(5, 0, 12)
    assert sorted(pool.block_table([5])[0].tolist()) == sorted(owned[1].tolist())


def state(pool: PagePool) -> str:
    return repr({**vars(pool), "tables": {k: list(v) for k, v in pool.tables.items()}})


def test_a_full_pool_says_so_and_gives_nothing():
    pool = PagePool(WINDOW, capacity=3)
    pool.extend(0, 0, 5)
    before = state(pool)
    for request in (0, 1):
        with pytest.raises(
            ValueError, match="the cache is full: 2 more pages of 4 rows are needed, 1 of its 3 are left"
        ):
            pool.extend(request, 0, 8 + 8 * (request == 0))
    assert state(pool) == before
    pool.extend(0, 0, 12)


def test_all_or_none_are_granted_and_asking_changes_nothing():
    pool = PagePool(WINDOW, capacity=4)
    pool.extend(0, 0, 8)
    before = state(pool)
    pool.require([(0, 8, 12), (1, 0, 4)])
    with pytest.raises(ValueError, match=r"1 more pages .* 0 of its 4 are left"):
        pool.require([(0, 8, 12), (1, 0, 4), (2, 0, 1)])
    assert state(pool) == before


def test_pages_that_one_gives_back_serve_those_after_it():
    pool = PagePool(WINDOW, capacity=3)
    pool.extend(0, 0, 12)
    growth = [(0, 12, 12), (1, 0, 4)]
    pool.require(growth)
    with pytest.raises(ValueError, match="the cache is full"):
        pool.require(growth[::-1])
    for each in growth:
        pool.extend(*each)


@given(data=st.data())
def test_what_is_required_can_be_extended_and_nothing_else(data):
    """Against a pool that is simply tried, one request after the other."""
    spaces = st.sampled_from([WINDOW, ENTRIES])
    pool = PagePool(data.draw(spaces), capacity=data.draw(st.integers(1, 8)))
    done = [0, 0, 0]
    for _ in range(6):
        growth = [(r, done[r], done[r] + data.draw(st.integers(0, 14))) for r in range(3)]
        tried = deepcopy(pool)
        try:
            for each in growth:
                tried.extend(*each)
        except ValueError:
            with pytest.raises(ValueError):
                pool.require(growth)
            continue
        pool.require(growth)
        pool, done = tried, [stop for _, _, stop in growth]
        owned = [page for table in pool.tables.values() for page in table if page != NULL_PAGE]
        assert len(set(owned)) == len(owned) and not set(owned) & set(pool._free)


def test_a_counted_run_fits_exactly():
    counting = PagePool(WINDOW)
    counting.extend(0, 0, 30)
    pool = PagePool(WINDOW, counting.high_water)
    pool.extend(0, 0, 30)
    assert np.unique(pool.block_table([0])).tolist() == list(range(1, counting.high_water + 1))
