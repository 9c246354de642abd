from dataclasses import replace

import pytest
import torch
from combine_cases import CASES, Case, assert_combined, assert_gathered, attended, wanted

from kernels.combine import eager as combine_eager
from kernels.combine import reference as combine_reference
from kernels.contracts import Batch, Scored
from kernels.gather import eager as gather_eager
from kernels.gather import reference as gather_reference

FP8 = replace(CASES[0], layout="fp8_ds_mla", nope=64, rope=16)
PAIRS = {
    "reference": (gather_reference.Gather(), combine_reference.Combine()),
    "eager": (gather_eager.Gather(), combine_eager.Combine()),
}


@pytest.mark.parametrize("case", [*CASES, FP8], ids=repr)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_each_token_attends_its_entries_and_then_its_window(pair, case, device):
    assert attended(case, *pair, device) == wanted(case)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_eager_combine_equals_reference(case, device):
    assert_combined(combine_eager.Combine(), case, device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", [*CASES, FP8], ids=repr)
def test_eager_gather_equals_reference(case, dtype, device):
    assert_gathered(gather_eager.Gather(), case, device, dtype)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_columns_are_a_multiple_of_128_and_behind_the_length_nothing(pair, device):
    for topk, columns in ((4, 128), (122, 128), (123, 256)):
        indices, lengths = replace(CASES[0], topk=topk).combined(pair[1], device)
        assert indices.shape[1] == columns
        column = torch.arange(columns, device=indices.device)
        assert torch.equal(indices == -1, column >= lengths[:, None])


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_negative_position_has_no_key(pair, device):
    for case in (CASES[0], replace(CASES[0], topk=None, ratio=0)):
        batch = case.batch(device)
        batch.rows.positions[:5] = torch.tensor([-1, -2, -4, -5, -100], device=batch.rows.positions.device)
        chosen, scored = case.chosen(device)
        indices, lengths = pair[1](chosen, scored, batch, case.ratio, case.columns, case.space)
        assert lengths[:5].tolist() == [0] * 5 and (indices[:5] == -1).all()
        assert int(lengths[5]) > 0


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_an_entry_that_is_none_stays_none(pair, device):
    """Not row -1 of the request, which is the last of the one before."""
    case = Case(spans=((0, 9), (30, 37)), padding=0)
    chosen, scored = case.chosen(device)
    chosen[10, 1] = -1
    indices, _ = pair[1](chosen, scored, case.batch(device), case.ratio, case.columns, case.space)
    assert indices[10, 1] == -1 and (indices[10, [0, 2, 3]] >= case.space.rows).all()


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_many_single_tokens_with_long_prefixes_are_all_gathered_or_refused(pair, device):
    """A budget counted in the wrong unit would leave rows out, and NaN behind."""
    case = Case(spans=tuple((length, length + 1) for length in range(90, 130)), padding=0, topk=None)
    assert attended(case, *pair, device) == wanted(case)
    needed = len(case.spans) * case.space.rows
    tight, short = (replace(pair[0], max_rows=rows) for rows in (needed, needed - 1))
    assert attended(case, tight, pair[1], device) == wanted(case)
    with pytest.raises(ValueError, match=f"are {needed} rows, more than prefill.gather.max_rows={needed - 1}"):
        case.gathered(short, device, torch.float32)


def test_nothing_chosen_means_all_that_is_visible(device):
    everything, nothing = Case(topk=None), Scored(torch.empty(0, dtype=torch.int64, device=device))
    batch: Batch = everything.batch(device)
    columns = everything.space.entries
    chosen = torch.arange(columns, device=device, dtype=torch.int32).expand(len(batch.rows.valid), -1)
    chosen = chosen.where(chosen < batch.rows.visible(4)[:, None], -1)
    for _, combine in PAIRS.values():
        one = combine(chosen, Scored(None), batch, 4, columns, everything.space)
        other = combine(None, nothing, batch, 4, columns, everything.space)
        assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))
