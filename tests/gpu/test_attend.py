"""Sparse attention on the GPU against the reference, at the shapes of Flash and Pro and of one rank of eight."""

from dataclasses import replace

import pytest
import torch
from attend_cases import INT_MAX, AttendCase, insert, replayed_long
from kernel_cases import assert_near

from kernels.attend import decode_split, hopper, hopper_heads, hopper_keys
from kernels.attend.reference import Attend as Reference
from kernels.contracts import Keys
from kernels.layouts import FP8DSMLACache, slots_of

INF = float("inf")
ANY = {"split": decode_split.Attend(), "split in 5": decode_split.Attend(splits=5, heads=32, keys=16)}
HOPPER = {
    "heads": hopper_heads.Attend(),
    "heads in 3": hopper_heads.Attend(splits=3),
    "heads whole": hopper_heads.Attend(splits=1),
    "keys": hopper_keys.Attend(),
    "keys in 4": hopper_keys.Attend(splits=4, heads=16, warps=4),
    "keys whole": hopper_keys.Attend(splits=1, heads=8, stages=2),
    "either": hopper.Attend(),
}


CASES = [
    AttendCase(),
    AttendCase(absent=0.0, seed=1),
    AttendCase(absent=0.95, seed=2, tokens=33),
    AttendCase(absent=1.0),
    AttendCase(first_block_absent=64, seed=3),
    AttendCase(heads=8, tokens=64, seed=4),
    AttendCase(heads=16, tokens=5, widths=(128, 1024)),
    AttendCase(heads=128, tokens=3, widths=(128, 1024)),
    AttendCase(heads=32, tokens=2, widths=(128, 768)),
    AttendCase(heads=3, tokens=9, widths=(7, 65)),
    AttendCase(heads=64, tokens=4, widths=(128, 300), page_sizes=(64, 2), sinks=None),
    AttendCase(heads=8, tokens=4, widths=(128, 300), page_sizes=(64, 2), sinks=None),
    AttendCase(heads=64, tokens=200, widths=(128,), page_sizes=(64,), layouts=("fp8_ds_mla",)),
    AttendCase(heads=8, tokens=200, widths=(128,), page_sizes=(64,), layouts=("fp8_ds_mla",)),
    AttendCase(heads=64, tokens=300, widths=(128, 70), seed=8),
    AttendCase(heads=16, tokens=300, widths=(128, 70), seed=9),
    AttendCase(heads=1, tokens=1, widths=(1, 1), page_sizes=(1, 1), absent=0.0),
    AttendCase(heads=5, nope=64, tokens=11, widths=(8, 12), page_sizes=(4, 2)),
]
RUNS = [(name, attend, case) for case in CASES for name, attend in (ANY | HOPPER).items()]
RUNS += [
    (name, attend, replace(case, layouts=("bf16",) * len(case.widths)))
    for case in (*CASES[:4], *CASES[-4:])
    for name, attend in (ANY | HOPPER).items()
]


@pytest.mark.parametrize(
    ("name", "attend", "case"), RUNS, ids=lambda part: part if isinstance(part, str) else repr(part)
)
def test_equals_reference(name, attend, case):
    inputs = case.inputs()
    assert_near(attend(*inputs), Reference()(*inputs), 1e-2)


@pytest.mark.parametrize("name", ANY | HOPPER)
def test_first_call_equals_the_second(name):
    inputs = AttendCase(tokens=130, heads=16).inputs()
    attend = (ANY | HOPPER)[name]
    assert torch.equal(attend(*inputs), attend(*inputs))


@pytest.mark.parametrize("name", ANY | HOPPER)
def test_padded_rows_leave_the_others_bit_identical_and_are_zero(name):
    attend = replace((ANY | HOPPER)[name], splits=2)
    q, keys, sink, scale = AttendCase(tokens=11, heads=16).inputs()
    padded = [
        Keys(
            source.cache,
            torch.cat((source.slots, torch.full_like(source.slots[:5], INT_MAX))),
            torch.cat((source.lengths, torch.zeros_like(source.lengths[:5]))),
        )
        for source in keys
    ]
    together = attend(torch.cat((q, torch.full_like(q[:5], float("nan")))), padded, sink, scale)
    assert torch.equal(together[:11], attend(q, keys, sink, scale))
    assert torch.equal(together[11:], torch.zeros_like(together[11:]))


@pytest.mark.parametrize("name", ANY | HOPPER)
def test_infinite_sinks(name):
    attend = (ANY | HOPPER)[name]
    q, keys, _, scale = AttendCase(tokens=6, heads=8, seed=6).inputs()
    sink = torch.tensor([INF, -INF] * 4, device="cuda")
    actual = attend(q, keys, sink, scale)
    assert torch.equal(actual[:, ::2], torch.zeros_like(actual[:, ::2]))
    assert_near(actual[:, 1::2], attend(q, keys, None, scale)[:, 1::2], 1e-6)


@pytest.mark.parametrize("name", ANY | HOPPER)
def test_large_logits_pick_the_best_key(name):
    q, keys, _, scale = AttendCase(tokens=4, heads=8, absent=0.0, seed=7).inputs()
    actual = (ANY | HOPPER)[name](q * 1000, keys, None, scale)
    assert_near(actual, Reference()(q * 1000, keys, None, scale), 1e-2)


def test_every_e4m3_value_and_scale_is_exact():
    """One key and no sink: the output is the key."""
    cache = FP8DSMLACache.empty(1, 64, 448, 64, "cuda")
    values = torch.arange(448, device="cuda").remainder(256).to(torch.uint8)
    values[values.remainder(128) == 127] = 1
    rows = cache.data[0, : 64 * 576].view(64, 576)
    rows[:, :448] = values
    rows[:, 448:] = torch.randn(64, 64, device="cuda").bfloat16().view(torch.uint8)
    scales = torch.arange(64 * 7, device="cuda").view(64, 7).remainder(200) + 20
    cache.data[0, 64 * 576 : 64 * 584].view(64, 8)[:, :7] = scales.to(torch.uint8)
    slots = torch.arange(64, device="cuda").int()[:, None]
    keys = Keys(cache, slots, torch.ones_like(slots[:, 0]))
    q = torch.zeros(64, 8, 512, device="cuda", dtype=torch.bfloat16)
    expected = cache.gather(slots[:, 0])[:, None].expand(-1, 8, -1).bfloat16()
    for name, attend in (ANY | HOPPER).items():
        assert torch.equal(attend(q, [keys], None, 1.0), expected), name


@pytest.mark.parametrize("name", ANY | HOPPER)
def test_a_page_beyond_two_gigabytes(name):
    cache = FP8DSMLACache(torch.empty(57_500, 37_440, dtype=torch.uint8, device="cuda"), 64, 448, 64)
    pages = torch.tensor([[57_400, 57_399, 57_361]], dtype=torch.int32, device="cuda")
    rows = torch.arange(150, device="cuda")
    slots = slots_of(pages, torch.zeros_like(rows), rows, 64)
    insert(cache, slots, torch.randn(150, 512, device="cuda"))
    keys = Keys(cache, slots.int()[None], torch.tensor([150], dtype=torch.int32, device="cuda"))
    q = torch.randn(1, 8, 512, device="cuda").bfloat16()
    assert_near((ANY | HOPPER)[name](q, [keys], None, 0.05), Reference()(q, [keys], None, 0.05), 1e-2)


@pytest.mark.parametrize("name", ANY | HOPPER)
def test_a_graph_captured_with_short_lengths_replays_long_ones(name):
    attend, inputs = (ANY | HOPPER)[name], AttendCase(tokens=5, heads=8, absent=0.0).inputs()
    assert torch.equal(replayed_long(attend, inputs), attend(*inputs))


def test_no_step_compiles_again():
    for module in (hopper_heads, hopper_keys, decode_split):
        counts = []
        for tokens in (1, 3, 16, 17):
            for width in (1, 16, 100):
                module.Attend(splits=2)(*AttendCase(tokens=tokens, heads=8, widths=(128, width)).inputs())
                counts.append(sum(len(cache[0]) for cache in module._attend.device_caches.values()))
        assert len(set(counts)) == 1, counts
