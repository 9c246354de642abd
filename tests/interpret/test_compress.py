from functools import partial
from itertools import pairwise

import pytest
import torch
from kernel_cases import assert_near
from suites import suite
from triton.runtime.interpreter import interpreter_builder

from kernels.compress.fused import Compress

KNOBS = {
    "single": Compress(),
    "single, split": Compress(tile=64),
    "whole": Compress(whole_from=1),
    "whole, split": Compress(whole_from=1, whole_tile=64),
}
STAGE = suite("compress", **KNOBS)
CASES = [case for case in STAGE.CASES if case.nope < 448 and case.ratio < 128]
LONG = STAGE.Case(ratio=128, windows=1, lengths=(130,), nope=8, page_size=2, state_page_size=8)


@pytest.mark.parametrize("name", KNOBS)
@pytest.mark.parametrize("case", [*CASES, LONG], ids=repr)
def test_equals_the_formula_over_the_whole_sequence(name, case):
    STAGE.test_equals_the_formula_over_the_whole_sequence(name, case, "cpu")


@pytest.mark.parametrize("name", KNOBS)
@pytest.mark.parametrize("ratio", [1, 3, 4])
@pytest.mark.parametrize("splits", [(1, 4), (3, 5), (8, 13)], ids=repr)
def test_chunks(name, ratio, splits):
    sequences = STAGE.Sequences(STAGE.Case(lengths=(14,), ratio=ratio), "cpu")
    for start, stop in pairwise((0, *splits, 14)):
        sequences.feed(KNOBS[name], [(start, stop)], padding=1)
    assert_near(sequences.entries(0), STAGE.formula(sequences.case, 0), 5e-6)


@pytest.mark.parametrize("name", KNOBS)
def test_one_token_at_a_time_equals_one_pass(name):
    STAGE.test_one_token_at_a_time_equals_one_pass(name, "cpu")


@pytest.mark.parametrize("name", KNOBS)
def test_inert_rows(name):
    STAGE.test_padded_rows_write_nothing(name, "fp32", "cpu")
    STAGE.test_open_windows_leave_the_cache_alone(name, "cpu")
    STAGE.test_no_tokens(name, "cpu")


@pytest.mark.parametrize("name", KNOBS)
def test_streams_and_state(name):
    STAGE.test_two_streams_share_the_pages(name, "cpu")
    STAGE.test_stored_scores_carry_the_ape_of_their_position(name, "cpu")


@pytest.mark.parametrize("name", KNOBS)
def test_programs_may_run_in_any_order(name, monkeypatch):
    """So that each of those that pool an entry is once the last."""
    set_place = interpreter_builder.set_grid_idx

    def shuffled(seed, x, y, z):
        order = torch.randperm(interpreter_builder.grid_dim[0], generator=torch.Generator().manual_seed(seed))
        set_place(int(order[x]), y, z)

    case = STAGE.Case(lengths=(11, 4, 3))
    for seed in range(4):
        monkeypatch.setattr(interpreter_builder, "set_grid_idx", partial(shuffled, seed))
        sequences = STAGE.Sequences(case, "cpu")
        sequences.feed(KNOBS[name], [(0, 5), (0, 3), (0, 2)], padding=1)
        sequences.feed(KNOBS[name], [(5, 11), (3, 4), (2, 3)], padding=2)
        for request in range(3):
            assert_near(sequences.entries(request), STAGE.formula(case, request), 5e-6)


def test_only_for_entries_in_pieces_tickets_are_drawn():
    case = STAGE.Case(lengths=(4,))
    for compress, touched in ((KNOBS["single, split"], False), (KNOBS["single"], True)):
        sequences = STAGE.Sequences(case, "cpu")
        sequences.tickets.fill_(100)
        with pytest.raises(AssertionError):
            sequences.feed(compress, [(0, 4)])
        assert bool((~sequences.cache.data.isnan()).any()) == touched
