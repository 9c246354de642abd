from dataclasses import dataclass

import pytest
import torch
from kernel_cases import pages_of, poisoned, ragged_rows, rope_for, shuffled_table
from near import assert_one_rounding_apart, assert_same_rows
from suites import suite

from kernels.contracts import Pages, Rows
from kernels.ingest.fused import Ingest
from kernels.ingest.reference import Ingest as Reference
from kernels.layouts import FP8DSMLACache


@dataclass(frozen=True)
class Case:
    heads: int
    spans: tuple[tuple[int, int], ...] = tuple((length, length + 1) for length in range(0, 4000, 63))
    padding: int = 5
    layout: str = "fp8_ds_mla"
    page_size: int = 64
    kv_stride: int = 1024 + 512

    def arguments(self) -> dict:
        generator = torch.Generator("cuda").manual_seed(self.heads)
        rows = ragged_rows(list(self.spans), self.padding, "cuda")
        columns = max(stop for _, stop in self.spans) // self.page_size + 1
        table = shuffled_table(len(self.spans), columns, 0, "cuda")
        tokens = len(rows.positions)
        random = lambda *shape: torch.randn(shape, generator=generator, device="cuda")  # noqa: E731
        return {
            "q": 3 * random(tokens, self.heads, 512).bfloat16(),
            "kv": (5 * random(tokens, self.kv_stride).bfloat16())[:, -512:],
            "kv_norm": (1 + random(512) / 4).bfloat16(),
            "eps": 1e-6,
            "rope": rope_for(64, "cuda"),
            "rows": rows,
            "cache": poisoned(self.layout, 1 + table.numel(), self.page_size, 448, 64, "cuda"),
            "pages": pages_of(rows, table, self.page_size),
        }


CASES = [Case(heads) for heads in (64, 128, 8, 16)] + [
    Case(64, spans=((0, 1000), (7, 30)), layout="bf16"),
    Case(1, spans=((3, 4),), padding=0, page_size=1),
]


KNOBS = {"default": Ingest(), "wide": Ingest(heads_per_program=16, num_warps=4), "overlap": Ingest(overlap=True)}
STAGE = suite("ingest", **KNOBS)


@pytest.mark.parametrize("name", KNOBS)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_equals_reference(name, case):
    actual, expected = case.arguments(), case.arguments()
    before = actual["q"].clone()
    assert_one_rounding_apart(KNOBS[name](**actual), Reference()(**expected))
    assert torch.equal(actual["q"], before)
    assert_same_rows(actual["cache"], expected["cache"])


@pytest.mark.parametrize("name", KNOBS)
def test_the_checks_of_the_stage(name):
    for case in STAGE.CASES:
        STAGE.test_equals_reference(name, case, "cuda")
    for layout in ("fp32", "bf16", "fp8_ds_mla"):
        STAGE.test_padded_rows_write_nothing_and_change_nothing(name, layout, "cuda")
    STAGE.test_equals_the_formula_in_float64(name, "cuda")
    STAGE.test_a_valid_token_without_a_slot_writes_nothing(name, "cuda")


def test_a_cache_beyond_32_bits():
    case = Case(8, spans=((70, 73),), padding=0)
    arguments, pages = case.arguments(), (1 << 31) // 37440 + 9
    expected = FP8DSMLACache.empty(1, 64, 448, 64, "cuda")
    small = torch.tensor([5, -1, 63], device="cuda")
    Ingest()(**arguments | {"cache": expected, "pages": Pages(arguments["pages"].block_table, 64, small)})
    cache = FP8DSMLACache.empty(pages, 64, 448, 64, "cuda")
    large = small + (pages - 1) * 64 * (small >= 0)
    Ingest()(**arguments | {"cache": cache, "pages": Pages(arguments["pages"].block_table, 64, large)})
    assert torch.equal(cache.data[-1], expected.data[0])
    assert not cache.data[:-1].any()


def test_queries_beyond_32_bits():
    case = Case(64, spans=((0, 3),), padding=0)
    arguments, tokens = case.arguments(), (1 << 31) // (64 * 512) + 3
    expected = Ingest()(**arguments)
    q = torch.zeros(tokens, 64, 512, dtype=torch.bfloat16, device="cuda")
    q[-3:] = arguments["q"]
    rows = Rows(*(torch.cat((x.new_zeros(tokens - 3), x)) for x in vars(arguments["rows"]).values()))
    slots = torch.cat((arguments["pages"].slot_mapping.new_full((tokens - 3,), -1), arguments["pages"].slot_mapping))
    pages = Pages(arguments["pages"].block_table, 64, slots)
    kv = torch.cat((arguments["kv"].new_zeros(tokens - 3, 512), arguments["kv"]))
    actual = Ingest()(**arguments | {"q": q, "kv": kv, "rows": rows, "pages": pages})
    assert torch.equal(actual[-3:], expected) and not actual[:-3].any()
