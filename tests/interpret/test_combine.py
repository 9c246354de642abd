from dataclasses import replace

import pytest
import torch
from combine_cases import CASES, Case, assert_combined, assert_gathered, attended, wanted

from kernels.combine import tokens, workers
from kernels.gather import fused

COMBINES = [
    workers.Combine(workers=1, block=64),
    workers.Combine(workers=5, block=256),
    tokens.Combine(rows_per_program=4, block=64),
    tokens.Combine(rows_per_program=8),
]
GATHERS = [fused.Gather(rows_per_program=1), fused.Gather(rows_per_program=8)]


@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("combine", COMBINES, ids=lambda x: f"{type(x).__module__}-{x}")
def test_combine_equals_reference(combine, case):
    assert_combined(combine, case, "cpu")


@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("gather", GATHERS, ids=repr)
def test_gather_equals_reference(gather, case):
    assert_gathered(gather, case, "cpu", torch.float32)


@pytest.mark.parametrize("combine", COMBINES[1::2], ids=repr)
def test_each_token_attends_its_entries_and_then_its_window(combine):
    for case in (CASES[1], CASES[4]):
        assert attended(case, GATHERS[1], combine, "cpu") == wanted(case)


@pytest.mark.parametrize("combine", COMBINES, ids=lambda x: f"{type(x).__module__}-{x}")
def test_no_key_for_a_negative_position_and_none_for_no_entry(combine):
    case = Case(spans=((0, 9), (30, 37)), padding=0)
    batch, (chosen, scored) = case.batch("cpu"), case.chosen("cpu")
    batch.rows.positions[:5] = torch.tensor([-1, -2, -4, -5, -100])
    chosen[10, 1] = -1
    indices, lengths = combine(chosen, scored, batch, case.ratio, case.columns, case.space)
    assert lengths[:5].tolist() == [0] * 5 and (indices[:5] == -1).all()
    assert indices[10, 1] == -1 and (indices[10, [0, 2, 3]] >= case.space.rows).all()


def test_a_workspace_over_budget_is_refused():
    case = CASES[0]
    needed = len(case.spans) * case.space.rows
    assert_gathered(replace(GATHERS[0], max_rows=needed), case, "cpu", torch.float32)
    with pytest.raises(ValueError, match=f"are {needed} rows, more than prefill.gather.max_rows={needed - 1}"):
        case.gathered(replace(GATHERS[0], max_rows=needed - 1), "cpu", torch.float32)
