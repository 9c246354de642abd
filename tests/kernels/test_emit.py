from dataclasses import dataclass

import pytest
import torch
from kernel_cases import assert_near, implementations, ragged_rows, rope_for

from kernels.emit.reference import Emit as Reference
from kernels.rope import rotate

FAST = implementations("emit")
ALL = {"reference": Reference(), **FAST}


@dataclass(frozen=True)
class Case:
    spans: tuple[tuple[int, int], ...] = ((0, 5), (3, 4), (17, 20))
    padding: int = 2
    heads: int = 6
    groups: int = 3
    nope: int = 10
    rope: int = 6
    rank: int = 5
    dtype: torch.dtype = torch.float32
    seed: int = 0

    def arguments(self, device: str) -> dict:
        generator = torch.Generator().manual_seed(self.seed)
        rows = ragged_rows(list(self.spans), self.padding, device)
        width = self.nope + self.rope
        of_group = self.heads * width // self.groups
        random = lambda *shape: torch.randn(shape, generator=generator).to(device, self.dtype)  # noqa: E731
        return {
            "o": random(len(rows.positions), self.heads, width),
            "rope": rope_for(self.rope, device),
            "rows": rows,
            "wo_a": random(self.groups, self.rank, of_group) / of_group**0.5,
        }


CASES = [
    Case(),
    Case(dtype=torch.bfloat16),
    Case(groups=1, heads=1),
    Case(spans=((4000, 4001),), padding=0),
    Case(spans=((0, 0),), padding=0),
    Case(nope=448, rope=64, heads=16, groups=2, rank=64, spans=((0, 70), (2000, 2003))),
    Case(nope=448, rope=64, heads=16, groups=2, rank=64, dtype=torch.bfloat16),
]


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_equals_reference(name, case, device):
    assert_near(FAST[name](**case.arguments(device)), Reference()(**case.arguments(device)))


@pytest.mark.parametrize("name", ALL)
def test_equals_the_formula_in_float64(name, device):
    case = Case()
    arguments = case.arguments(device)
    actual = ALL[name](**arguments).cpu()
    wo_a = arguments["wo_a"].cpu().double()
    rope = arguments["rope"]
    for t, position in enumerate(arguments["rows"].positions.tolist()):
        o = arguments["o"][t].cpu().double()
        cos, sin = rope.cos[position].cpu().double(), rope.sin[position].cpu().double()
        for i in range(case.rope // 2):
            even, odd = o[:, case.nope + 2 * i].clone(), o[:, case.nope + 2 * i + 1].clone()
            o[:, case.nope + 2 * i] = even * cos[i] + odd * sin[i]
            o[:, case.nope + 2 * i + 1] = odd * cos[i] - even * sin[i]
        per_group = case.heads // case.groups
        latent = [wo_a[g] @ o[g * per_group : (g + 1) * per_group].flatten() for g in range(case.groups)]
        assert_near(actual[t], torch.cat(latent).float(), 5e-6)


@pytest.mark.parametrize("name", ALL)
def test_it_undoes_the_rotation_of_the_query_position(name, device):
    arguments = Case().arguments(device)
    expected = ALL[name](**{**arguments, "rows": ragged_rows([(0, 1)] * 9, 2, device)})
    turned = rotate(arguments["o"], arguments["rows"].positions, arguments["rope"])
    assert_near(ALL[name](**{**arguments, "o": turned}), expected)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), 3e38, -1.0])
def test_what_stands_in_padded_rows_changes_no_bit_of_the_others(name, dtype, garbage, device):
    case = Case(dtype=dtype, padding=3)
    zeros, filled = case.arguments(device), case.arguments(device)
    zeros["o"][-3:], filled["o"][-3:] = 0, garbage
    expected = ALL[name](**zeros)[:-3]
    assert expected.isfinite().all()
    assert torch.equal(ALL[name](**filled)[:-3], expected)


@pytest.mark.parametrize("name", ALL)
def test_padded_rows_do_not_reach_the_others(name, device):
    """That they are there at all may change the others by rounding, for the number of rows decides how a GEMM adds."""
    arguments = Case(padding=0).arguments(device)
    padded = {**arguments, "rows": ragged_rows(list(Case().spans), 3, device)}
    padded["o"] = torch.cat((arguments["o"], torch.full_like(arguments["o"][:3], float("nan"))))
    assert_near(ALL[name](**padded)[:-3], ALL[name](**arguments), 1e-6)
