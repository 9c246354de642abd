from dataclasses import dataclass

import pytest
import torch
from kernel_cases import assert_near, implementations, pages_of, poisoned, ragged_rows, rope_for, shuffled_table

from kernels.contracts import Pages
from kernels.ingest.reference import Ingest as Reference

FAST = implementations("ingest")
ALL = {"reference": Reference(), **FAST}
EPS = 1e-6


@dataclass(frozen=True)
class Case:
    spans: tuple[tuple[int, int], ...] = ((0, 5), (3, 4), (17, 20))
    padding: int = 2
    heads: int = 3
    nope: int = 64
    rope: int = 8
    layout: str = "fp32"
    dtype: torch.dtype = torch.float32
    page_size: int = 3
    seed: int = 0

    def arguments(self, device: str) -> dict:
        generator = torch.Generator().manual_seed(self.seed)
        rows = ragged_rows(list(self.spans), self.padding, device)
        columns = max(stop for _, stop in self.spans) // self.page_size + 1
        block_table = shuffled_table(len(self.spans), columns, self.seed, device)
        tokens, width = len(rows.positions), self.nope + self.rope
        random = lambda *shape: torch.randn(shape, generator=generator).to(device)  # noqa: E731
        return {
            "q": (3 * random(tokens, self.heads, width)).to(self.dtype),
            "kv": (5 * random(tokens, width)).to(self.dtype),
            "kv_norm": 1 + random(width) / 4,
            "eps": EPS,
            "rope": rope_for(self.rope, device),
            "rows": rows,
            "cache": poisoned(self.layout, 1 + len(self.spans) * columns, self.page_size, self.nope, self.rope, device),
            "pages": pages_of(rows, block_table, self.page_size),
        }


CASES = [
    Case(),
    Case(dtype=torch.bfloat16, layout="bf16"),
    Case(layout="fp8_ds_mla", page_size=64),
    Case(dtype=torch.bfloat16, layout="fp8_ds_mla", nope=448, rope=64, heads=8, spans=((0, 300), (900, 901))),
    Case(spans=((4000, 4001),), padding=0, heads=1, page_size=1),
    Case(spans=((0, 0),), padding=0),
    Case(spans=((0, 0),), padding=3),
]


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_equals_reference(name, case, device):
    actual, expected = case.arguments(device), case.arguments(device)
    assert_near(FAST[name](**actual), Reference()(**expected))
    slots = expected["pages"].slot_mapping
    assert_near(actual["cache"].gather(slots), expected["cache"].gather(slots))


@pytest.mark.parametrize("name", ALL)
def test_equals_the_formula_in_float64(name, device):
    case = Case()
    arguments = case.arguments(device)
    actual = ALL[name](**arguments).cpu()
    rope, slots = arguments["rope"], arguments["pages"].slot_mapping.cpu()
    stored = arguments["cache"].gather(slots.to(device)).cpu()

    def expected(vector, weight, position):
        x = vector.cpu().double()
        x = x / (x.square().mean() + EPS).sqrt() * weight
        cos, sin = rope.cos[position].cpu().double(), rope.sin[position].cpu().double()
        turned = x.clone()
        for i in range(case.rope // 2):
            even, odd = x[case.nope + 2 * i], x[case.nope + 2 * i + 1]
            turned[case.nope + 2 * i] = even * cos[i] - odd * sin[i]
            turned[case.nope + 2 * i + 1] = odd * cos[i] + even * sin[i]
        return turned.float()

    for t in range(len(slots) - case.padding):
        position = int(arguments["rows"].positions[t])
        for h in range(case.heads):
            assert_near(actual[t, h], expected(arguments["q"][t, h], 1.0, position), 2e-6)
        assert_near(stored[t], expected(arguments["kv"][t], arguments["kv_norm"].cpu().double(), position), 2e-6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("layout", ["fp32", "bf16", "fp8_ds_mla"])
def test_padded_rows_write_nothing_and_change_nothing(name, layout, device):
    padded, alone = Case(padding=4, layout=layout).arguments(device), Case(padding=0, layout=layout).arguments(device)
    tokens = len(alone["rows"].positions)
    for key in ("q", "kv"):
        padded[key][:tokens], padded[key][tokens:] = alone[key], float("nan")
    padded["kv_norm"] = alone["kv_norm"]
    slots = padded["pages"].slot_mapping.clone()
    slots[tokens:] = 2
    padded["pages"] = Pages(padded["pages"].block_table, padded["pages"].page_size, slots)
    assert torch.equal(ALL[name](**padded)[:tokens], ALL[name](**alone))
    assert torch.equal(padded["cache"].data.view(torch.uint8), alone["cache"].data.view(torch.uint8))


@pytest.mark.parametrize("name", ALL)
def test_a_valid_token_without_a_slot_writes_nothing(name, device):
    arguments = Case().arguments(device)
    pages = arguments["pages"]
    kept = pages.slot_mapping.clone()
    kept[1] = -1
    ALL[name](**{**arguments, "pages": Pages(pages.block_table, pages.page_size, kept)})
    assert arguments["cache"].gather(pages.slot_mapping[1:2]).isnan().all()
    assert arguments["cache"].gather(pages.slot_mapping[[0, 2]]).isfinite().all()
