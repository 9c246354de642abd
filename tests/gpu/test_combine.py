from dataclasses import replace

import pytest
import torch
from combine_cases import CASES, Case, assert_combined, assert_gathered, attended, wanted

from kernels.combine import tokens, workers
from kernels.gather import fused
from pipeline.evidence.check import Checker
from tests.gpu.test_graph import built

COMBINES = {
    "128 workers": workers.Combine(workers=128),
    "256 workers": workers.Combine(workers=256),
    "512 workers": workers.Combine(workers=512, block=256),
    "tokens": tokens.Combine(),
    "tokens, one by one": tokens.Combine(rows_per_program=1, block=1024, num_warps=4, overlap=True),
    "tokens, many": tokens.Combine(rows_per_program=16, num_warps=4, keep_indices=True),
}
GATHERS = [fused.Gather(), fused.Gather(rows_per_program=1, num_warps=1), fused.Gather(rows_per_program=32)]
FLASH = {"page_sizes": (64, 64), "window": 128, "layout": "fp8_ds_mla", "nope": 448, "rope": 64}
PROMPTS = Case(spans=((0, 1024), (0, 700), (0, 1)), topk=512, padding=5, **FLASH)
CHUNK = Case(spans=((3000, 4200), (5000, 5001), (126, 131)), topk=512, padding=3, **FLASH)
REAL = {
    "prompts": PROMPTS,
    "prompts, nothing chosen": replace(PROMPTS, scored="long"),
    "a chunk": CHUNK,
    "a chunk, some chosen": replace(CHUNK, scored="long"),
    "768 of them": replace(CHUNK, topk=768),
    "1,024 of them": replace(CHUNK, topk=1024),
    "hca": replace(CHUNK, topk=None, ratio=128, page_sizes=(2, 64)),
    "swa": replace(CHUNK, topk=None, ratio=0),
    "bf16 rows": replace(CHUNK, layout="bf16"),
    "single tokens with prefixes": Case(spans=tuple((n, n + 1) for n in range(900, 964)), topk=512, padding=0, **FLASH),
}


@pytest.mark.parametrize("case", [*CASES, *REAL.values()], ids=[*map(repr, CASES), *REAL])
def test_combine_equals_reference(case):
    for combine in COMBINES.values():
        assert_combined(combine, case, "cuda")


@pytest.mark.parametrize("case", [*CASES, *REAL.values()], ids=[*map(repr, CASES), *REAL])
@pytest.mark.parametrize("gather", GATHERS, ids=repr)
def test_gather_equals_reference(gather, case):
    for dtype in (torch.bfloat16, torch.float32):
        assert_gathered(gather, case, "cuda", dtype)


@pytest.mark.parametrize("name", ["a chunk, some chosen", "hca", "swa", "single tokens with prefixes"])
def test_each_token_attends_its_entries_and_then_its_window(name):
    assert attended(REAL[name], GATHERS[0], COMBINES["tokens"], "cuda") == wanted(REAL[name])


def test_rows_beyond_two_gigabytes_are_gathered():
    small = Case(spans=((0, 1),) * 3 + ((40, 70),), topk=None, padding=0, **FLASH)
    large = replace(small, spare=350_000)
    assert 3 * large.space.rows * 1024 > 2**31
    last = []
    for case in (small, large):
        rows = case.gathered(fused.Gather(), "cuda", torch.bfloat16).view(4, case.space.rows, -1)[3]
        last.append(torch.cat((rows[: 70 // 4], rows[case.space.entries :][:70])))
    assert torch.equal(*last) and last[0].isfinite().all()
    for combine in COMBINES.values():
        assert_combined(combine, large, "cuda")


@pytest.mark.parametrize("combine", COMBINES.values(), ids=COMBINES)
def test_a_graph_of_other_positions_is_replayed(combine):
    case = replace(CHUNK, padding=0)
    batch, (chosen, scored) = case.batch("cuda"), case.chosen("cuda")
    right = batch.rows.positions.clone()
    expected = combine(chosen, scored, batch, 4, 512, case.space)
    batch.rows.positions.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = combine(chosen, scored, batch, 4, 512, case.space)
    batch.rows.positions.copy_(right)
    graph.replay()
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", ["hca", "3"])
@pytest.mark.parametrize("variant", ["combine_256", "combine_tokens"])
def test_prompts_pass_the_check(variant, kind):
    """Prompts beside a chunk of one with a prefix; then decodes, straight from the caches."""
    mix = "[{cached_len: [0, 0, 1500, 6000], prompt_len: [300, 2300, 2400, 6001], output_len: 2}]"
    lab = built(kind, variant, overrides=(f"workloads.decode.mix={mix}", "workloads.decode.num_requests=4"))
    assert any(not inputs.decodes for inputs in lab.arms[0].plan.inputs)
    found = Checker(lab.reference)(lab.arms[0])
    assert found.passed, found.detail
