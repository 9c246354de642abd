from dataclasses import dataclass, replace

import pytest
import torch
from kernel_cases import assert_near, implementations, poisoned

from kernels.attend.reference import Attend as Reference
from kernels.contracts import Keys

FAST = implementations("attend")
ALL = {"reference": Reference(), **FAST}
INF = float("inf")
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class Case:
    """Two sources unless `widths` says otherwise; negative slots anywhere, anything past the length."""

    tokens: int = 5
    heads: int = 3
    nope: int = 64
    rope: int = 8
    widths: tuple[int, ...] = (7, 12)
    layouts: tuple[str, ...] = ("fp8_ds_mla", "fp8_ds_mla")
    dtype: torch.dtype = torch.float32
    sinks: tuple[float, ...] | None = (0.3, -INF, -1.0)
    page_size: int = 3
    absent: float = 0.3
    first_block_absent: int = 0
    seed: int = 0

    @property
    def scale(self) -> float:
        return (self.nope + self.rope) ** -0.5

    def sink(self, device: str) -> torch.Tensor | None:
        return None if self.sinks is None else torch.tensor(self.sinks, device=device)

    def q(self, device: str) -> torch.Tensor:
        shape = (self.tokens, self.heads, self.nope + self.rope)
        return (2 * torch.randn(shape, generator=self._generator())).to(device, self.dtype)

    def keys(self, device: str) -> list[Keys]:
        return [self._source(width, layout, device) for width, layout in zip(self.widths, self.layouts, strict=True)]

    def _source(self, width: int, layout: str, device: str) -> Keys:
        """Rows that no token attends stay poisoned, the first and the last row of the cache among them."""
        generator = self._generator()
        pages = 4 + 2 * width
        cache = poisoned(layout, pages, self.page_size, self.nope, self.rope, device)
        places = torch.randint(1, pages * self.page_size - 1, (self.tokens, width), generator=generator)
        absent = torch.rand(places.shape, generator=generator) < self.absent
        places[absent] = torch.tensor([-1, -2, INT_MIN])[torch.randint(0, 3, (int(absent.sum()),), generator=generator)]
        places[:, : self.first_block_absent] = -1
        lengths = torch.randint(0, width + 1, (self.tokens,), generator=generator)
        lengths[1::2] = width
        looked_at = torch.arange(width) < lengths[:, None]
        used = places[looked_at & (places >= 0)].unique()
        values = torch.randn(len(used), cache.width, generator=generator)
        cache.insert(used.to(device), values.to(device))
        junk = torch.tensor([INT_MIN, -2, 0, pages * self.page_size - 1, INT_MAX])
        junk = junk[torch.randint(0, 5, places.shape, generator=generator)]
        slots = torch.where(looked_at, places, junk)
        return Keys(cache, slots.int().to(device), lengths.int().to(device))

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)


CASES = [
    Case(),
    Case(seed=1, absent=0.0),
    Case(seed=2, absent=0.9, tokens=9),
    Case(seed=3, absent=1.0),
    Case(first_block_absent=5, widths=(7, 40)),
    Case(first_block_absent=32, widths=(33, 67), absent=0.0),
    Case(tokens=1, heads=1, sinks=(0.5,), page_size=1),
    Case(tokens=0),
    Case(widths=(5,), layouts=("fp32",), sinks=None),
    Case(widths=(1, 1), layouts=("bf16", "fp32")),
    Case(widths=(0, 3)),
    Case(widths=(4, 5, 6), layouts=("fp32", "fp8_ds_mla", "bf16")),
    Case(sinks=(INF, INF, INF)),
    Case(sinks=(INF, 100.0, -INF)),
    Case(nope=448, rope=64, heads=8, sinks=None, widths=(128, 130), tokens=70, page_size=64),
]
BF16 = [replace(case, dtype=torch.bfloat16) for case in CASES]


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("case", CASES + BF16, ids=repr)
def test_equals_reference(name, case, device):
    q, keys, sink = case.q(device), case.keys(device), case.sink(device)
    assert_near(FAST[name](q, keys, sink, case.scale), Reference()(q, keys, sink, case.scale))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("sinks", [None, (0.7, -2.0)])
def test_equals_the_formula_in_float64(name, sinks, device):
    case = Case(tokens=6, heads=2, sinks=sinks, layouts=("fp32", "fp32"), widths=(4, 3), seed=5)
    q, keys = case.q(device), case.keys(device)
    actual = ALL[name](q, keys, case.sink(device), case.scale)
    for t in range(case.tokens):
        attended = []
        for source in keys:
            rows = source.cache.data.double().flatten(0, 1)
            attended += [rows[slot] for slot in source.slots[t, : source.lengths[t]].tolist() if slot >= 0]
        for h in range(case.heads):
            weights = [float(q[t, h].double() @ row * case.scale) for row in attended]
            weights = torch.tensor(weights, dtype=torch.float64).exp()
            total = weights.sum() + (0 if sinks is None else torch.tensor(sinks[h], dtype=torch.float64).exp())
            expected = sum((w / total * row.cpu() for w, row in zip(weights, attended, strict=True)), torch.zeros(72))
            torch.testing.assert_close(actual[t, h].cpu().double(), expected.double(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("sinks", [None, (-INF, -INF), (INF, INF), (3.0, -50.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_without_keys_is_exactly_zero(name, sinks, dtype, device):
    case = Case(heads=2, sinks=sinks, dtype=dtype, layouts=("fp8_ds_mla", "bf16"))
    window, selected = case.keys(device)
    window = replace(window, slots=window.slots.index_fill(0, torch.tensor([0, 2], device=device), -1))
    selected = replace(selected, lengths=selected.lengths.index_fill(0, torch.tensor([0, 2], device=device), 0))
    actual = ALL[name](case.q(device), [window, selected], case.sink(device), case.scale)
    assert torch.equal(actual[[0, 2]], torch.zeros_like(actual[[0, 2]]))
    assert actual.isfinite().all()
    assert (actual[1] != 0).any() == (sinks != (INF, INF))


@pytest.mark.parametrize("name", ALL)
def test_an_infinite_sink_takes_everything_from_its_head_alone(name, device):
    case = Case(absent=0.0)
    q, keys = case.q(device), case.keys(device)
    plain = ALL[name](q, keys, None, case.scale)
    actual = ALL[name](q, keys, torch.tensor([-INF, INF, -INF], device=device), case.scale)
    assert torch.equal(actual[:, 1], torch.zeros_like(actual[:, 1]))
    assert_near(actual[:, [0, 2]], plain[:, [0, 2]], 1e-6)


@pytest.mark.parametrize("name", ALL)
def test_a_finite_sink_scales_the_output_by_its_share(name, device):
    cache = poisoned("fp32", 3, 2, 4, 0, device)
    cache.insert(torch.tensor([2, 3], device=device), torch.eye(4, device=device)[:2])
    keys = Keys(cache, torch.tensor([[-1, 3, 2]], device=device).int(), torch.tensor([3], device=device).int())
    q = torch.zeros(1, 1, 4, device=device)
    actual = ALL[name](q, [keys], torch.log(torch.tensor([6.0], device=device)), 1.0)
    torch.testing.assert_close(actual.cpu(), torch.tensor([[[1 / 8, 1 / 8, 0, 0]]]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ALL)
def test_large_logits_neither_overflow_nor_vanish(name, device):
    case = Case(absent=0.0, sinks=(200.0, -200.0, 0.0), layouts=("fp32", "fp32"))
    q, keys = case.q(device) * 1000, case.keys(device)
    actual = ALL[name](q, keys, case.sink(device), case.scale)
    rows = torch.cat([source.cache.gather(source.slots[1]) for source in keys])
    best = (q[1] @ rows.T).argmax(1)
    assert_near(actual[1, 2], rows[best[2]], 1e-4)
    assert_near(actual[1, 1], rows[best[1]], 1e-4)


@pytest.mark.parametrize("name", ALL)
def test_where_the_absent_keys_stand_does_not_matter(name, device):
    case = Case(absent=0.5, tokens=8)
    q, keys = case.q(device), case.keys(device)
    tailed = []
    for source in keys:
        column = torch.arange(source.slots.shape[1], device=device)
        slots = source.slots.masked_fill(column >= source.lengths[:, None], -1)
        order = (slots < 0).int().argsort(dim=1, stable=True)
        tailed.append(Keys(source.cache, slots.gather(1, order), (slots >= 0).sum(1).int()))
    assert_near(ALL[name](q, tailed, None, case.scale), ALL[name](q, keys, None, case.scale))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_padded_rows_leave_the_others_bit_identical(name, dtype, device):
    case = Case(tokens=11, dtype=dtype, heads=3)
    q, keys, sink = case.q(device), case.keys(device), case.sink(device)
    padded = [
        Keys(
            source.cache,
            torch.cat((source.slots, torch.full_like(source.slots[:4], INT_MAX))),
            torch.cat((source.lengths, torch.zeros_like(source.lengths[:4]))),
        )
        for source in keys
    ]
    alone = ALL[name](q, keys, sink, case.scale)
    together = ALL[name](torch.cat((q, torch.full_like(q[:4], float("nan")))), padded, sink, case.scale)
    assert torch.equal(together[:11], alone)
    assert torch.equal(together[11:], torch.zeros_like(together[11:]))


@pytest.mark.parametrize("name", ALL)
def test_a_token_alone_equals_the_token_among_others(name, device):
    case = Case(tokens=8, nope=128, widths=(9, 30))
    q, keys, sink = case.q(device), case.keys(device), case.sink(device)
    together = ALL[name](q, keys, sink, case.scale)
    for t in range(8):
        alone = [Keys(k.cache, k.slots[t : t + 1], k.lengths[t : t + 1]) for k in keys]
        assert_near(ALL[name](q[t : t + 1], alone, sink, case.scale), together[t : t + 1])


@pytest.mark.parametrize("keys_at_once", [1, 20, 47, 10**6])
def test_how_many_keys_at_once_does_not_matter(keys_at_once, device):
    case = Case(tokens=9)
    q, keys, sink = case.q(device), case.keys(device), case.sink(device)
    expected = FAST["eager"](q, keys, sink, case.scale)
    assert_near(replace(FAST["eager"], keys_at_once=keys_at_once)(q, keys, sink, case.scale), expected)
