from dataclasses import replace

import pytest
import torch
from locate_cases import CASES, Case, assert_located

from kernels.select import locate_batched, locate_churn, locate_constexpr, locate_fused, locate_runtime

ORDERED = [
    locate_runtime.Locate(),
    locate_constexpr.Locate(),
    locate_churn.Locate(),
    locate_churn.Locate(compiled_in=False, programs=7),
    locate_batched.Locate(),
    locate_batched.Locate(4, 1, keep_slots=True, overlap=True),
]
FUSED = [locate_fused.Locate(), locate_fused.Locate(rows_per_program=4, num_warps=1, overlap=True, keep_slots=True)]
DECODE = Case(tuple((length, length + 1) for length in range(1500, 9000, 117)), width=512, page_size=64, padding=3)
PREFILL = Case(((0, 700), (1800, 4300)), width=512, page_size=64)
REAL = [
    DECODE,
    PREFILL,
    replace(DECODE, width=1024),
    replace(DECODE, width=768, scored="long"),
    replace(PREFILL, scored="long"),
    replace(PREFILL, width=1024, scored="some"),
    replace(PREFILL, width=1075, scored="none"),
    Case(((1_000_000, 1_000_003), (5, 9)), ratio=128, page_size=2, width=8192, scored="none"),
]


@pytest.mark.parametrize("case", CASES + REAL, ids=repr)
@pytest.mark.parametrize("locate", ORDERED, ids=lambda x: f"{type(x).__module__}-{x}")
def test_equals_reference(locate, case):
    assert_located(locate, case, "cuda", ordered=True)


@pytest.mark.parametrize("case", CASES + REAL, ids=repr)
@pytest.mark.parametrize("locate", FUSED, ids=repr)
def test_fused_equals_reference(locate, case):
    assert_located(locate, case, "cuda", ordered=False)


@pytest.mark.parametrize("locate", [ORDERED[1], ORDERED[2], FUSED[0]], ids=lambda x: f"{type(x).__module__}-{x}")
def test_a_graph_of_short_rows_replays_long_ones(locate):
    """Positions change between capture and replay; the width, and with it the shortcut, does not."""
    longest = replace(DECODE, scored="none", width=3000)
    later = longest.arguments("cuda")
    arguments = replace(longest, spans=tuple((5, 6) for _ in longest.spans)).arguments("cuda")
    arguments["pages"] = later["pages"]
    locate(**arguments)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        slots, lengths = locate(**arguments)
    arguments["rows"].positions.copy_(later["rows"].positions)
    graph.replay()
    expected_slots, expected_lengths = locate(**later)
    assert torch.equal(slots, expected_slots) and torch.equal(lengths, expected_lengths)
    assert int(lengths.max()) > 2000
