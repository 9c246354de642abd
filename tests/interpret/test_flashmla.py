"""What FlashMLA is called with: an operator of the same arguments in torch stands for it."""

from types import SimpleNamespace

import pytest
import torch
from attend_cases import AttendCase
from kernel_cases import assert_near

from kernels import peers
from kernels.attend import flashmla
from kernels.attend.reference import Attend as Reference
from kernels.contracts import Keys
from kernels.layouts import FP8DSMLACache, PlainCache

CASES = [
    AttendCase(tokens=5, heads=64, device="cpu"),
    AttendCase(tokens=4, heads=8, widths=(128, 300), page_sizes=(64, 2), sinks=None, device="cpu"),
    AttendCase(tokens=3, heads=3, widths=(7, 65), page_sizes=(4, 2), device="cpu"),
    AttendCase(tokens=2, heads=100, widths=(128,), layouts=("fp8_ds_mla",), page_sizes=(64,), device="cpu"),
    AttendCase(tokens=6, heads=16, absent=0.9, seed=3, device="cpu"),
]


def looked_at(slots, lengths, multiple):
    """Keys by the operator's rules: whole blocks of columns, -1 for none, lengths that no column is beyond."""
    assert slots.shape[1] == 1 and slots.shape[2] % multiple == 0 and (lengths <= slots.shape[2]).all()
    return slots[:, 0], lengths


def sparse_decode_fwd(q, cache, slots, lengths, sink, planned_for, splits, extra, extra_slots, extra_lengths, *rest):
    width, scale, out = rest
    assert q.shape[1] == 1 and q.shape[2] in (64, 128) and (width, out) == (512, None)
    sources = [(cache, slots, lengths)] + ([] if extra is None else [(extra, extra_slots, extra_lengths)])
    seen = [looked_at(s, n, 64) for _, s, n in sources]
    plan = torch.cat([n for _, n in seen]) if planned_for is None else planned_for
    assert torch.equal(plan, torch.cat([n for _, n in seen])), "a plan fits no other lengths"
    keys = []
    for (pages, _, _), (columns, n) in zip(sources, seen, strict=True):
        assert pages.shape[2:] == (1, 584) and pages.stride()[1:] == (584, 584, 1)
        rows = torch.as_strided(pages, (pages.shape[0], pages.stride(0)), (pages.stride(0), 1), 0)
        keys.append(Keys(FP8DSMLACache(rows, pages.shape[1], 448, 64), columns, n))
    result = Reference()(q[:, 0], keys, sink, scale)
    return result[:, None], None, plan, torch.zeros(1)


def sparse_prefill_fwd(q, rows, slots, scale, width, sink, lengths, out):
    columns, n = looked_at(slots, lengths, 128)
    beyond = torch.arange(columns.shape[1]) >= n[:, None]
    assert q.shape[1] in (64, 128) and (width, out) == (512, None) and (columns[beyond] == -1).all()
    return [Reference()(q, [Keys(PlainCache(rows), columns, n)], sink, scale)]


@pytest.fixture(autouse=True)
def operators(monkeypatch):
    fake = SimpleNamespace(sparse_decode_fwd=sparse_decode_fwd, sparse_prefill_fwd=sparse_prefill_fwd)
    monkeypatch.setattr(peers, "flashmla", lambda: fake)
    flashmla._plan.cache_clear()
    yield
    flashmla._plan.cache_clear()


@pytest.mark.parametrize("plan", ["auto", "columns", "lengths"])
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_decode_equals_the_reference(case, plan):
    inputs = case.inputs()
    attend = flashmla.Attend(plan=plan)
    assert_near(attend(*inputs), Reference()(*inputs))
    assert_near(attend(*inputs), Reference()(*inputs))


def test_many_columns_are_planned_from_their_lengths():
    inputs = CASES[0].inputs()
    flashmla.Attend(most_columns=639)(*inputs)
    assert flashmla._plan.cache_info().currsize == 0
    flashmla.Attend(most_columns=640)(*inputs)
    assert flashmla._plan.cache_info().currsize == 1


@pytest.mark.parametrize(("heads", "columns"), [(64, 128), (8, 130)])
def test_a_workspace_is_attended_by_the_prefill_operator(heads, columns):
    rows = torch.randn(300, 1, 512).bfloat16()
    slots = torch.randint(0, 300, (6, columns)).int()
    lengths = torch.tensor([columns, 1, 0, 77, 5, 100], dtype=torch.int32)
    slots[torch.arange(columns) >= lengths[:, None]] = -1
    inputs = (torch.randn(6, heads, 512).bfloat16(), [Keys(PlainCache(rows), slots, lengths)], torch.randn(heads), 0.05)
    assert_near(flashmla.Attend()(*inputs), Reference()(*inputs))


def test_other_caches_are_refused():
    q, keys, sink, scale = AttendCase(tokens=1, layouts=("fp8_ds_mla", "bf16"), device="cpu").inputs()
    with pytest.raises(ValueError, match=r"engine\.kv_layout=fp8_ds_mla"):
        flashmla.Attend()(q, keys, sink, scale)
