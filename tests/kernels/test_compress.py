from dataclasses import dataclass, replace
from functools import cache, cached_property

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import assert_near, implementations, pages_of, poisoned, ragged_rows, rope_for, shuffled_table

from kernels.compress.reference import Compress as Reference
from kernels.contracts import Pages, Rows, Stream
from kernels.layouts import tickets_for

FAST = implementations("compress")
ALL = {"reference": Reference(), **FAST}
EPS = 1e-6


@dataclass(frozen=True)
class Case:
    """Whole sequences of every request; `run` feeds them in chunks."""

    lengths: tuple[int, ...] = (13, 4, 3, 22)
    ratio: int = 4
    windows: int = 2
    nope: int = 64
    rope: int = 8
    layout: str = "fp32"
    page_size: int = 3
    state_page_size: int = 5
    seed: int = 0

    @cached_property
    def norm(self) -> torch.Tensor:
        return 1 + torch.randn(self.nope + self.rope, generator=self._generator()) / 4

    @cached_property
    def ape(self) -> torch.Tensor:
        return torch.randn(self.ratio, self.windows * (self.nope + self.rope), generator=self._generator())

    @cached_property
    def tokens(self) -> list[torch.Tensor]:
        """Per request [length, 2, F * d]: kv and score."""
        generator, width = self._generator(), self.windows * (self.nope + self.rope)
        return [torch.randn(length, 2, width, generator=generator) for length in self.lengths]

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)


class Sequences:
    """The requests of a case and their caches, fed to an implementation chunk by chunk."""

    def __init__(self, case: Case, device: str):
        self.case, self.device = case, device
        requests, longest = len(case.lengths), max(case.lengths)
        state_columns = longest // case.state_page_size + 1
        columns = longest // case.ratio // case.page_size + 1
        self.block_table = shuffled_table(requests, columns, 1, device)
        self.state_table = shuffled_table(requests, state_columns, 2, device)
        self.cache = poisoned(case.layout, 1 + requests * columns, case.page_size, case.nope, case.rope, device)
        width = 2 * case.windows * (case.nope + case.rope)
        self.state = poisoned("fp32", 1 + requests * state_columns, case.state_page_size, width, 0, device)
        self.tickets = tickets_for(self.cache)
        self.rope = rope_for(case.rope, device)

    def feed(self, compress, spans: list[tuple[int, int]], padding: int = 0) -> None:
        case = self.case
        rows = ragged_rows(spans, padding, self.device)
        parts = [case.tokens[r][start:stop] for r, (start, stop) in enumerate(spans)]
        tokens = torch.cat([*parts, torch.full((padding, *case.tokens[0].shape[1:]), float("nan"))]).to(self.device)
        kv, score = tokens.unbind(1)
        weights = case.ape.to(self.device), case.norm.to(self.device)
        stream = Stream(kv, score, *weights, self.state, self.cache, self.tickets)
        state_pages = _point_padding_somewhere(pages_of(rows, self.state_table, case.state_page_size), rows)
        pages = _point_padding_somewhere(pages_of(rows, self.block_table, case.page_size, case.ratio), rows)
        assert compress([stream], EPS, self.rope, rows, state_pages, pages) is None
        assert not self.tickets.any()

    def entries(self, request: int) -> torch.Tensor:
        """What lies in the cache for every window that the whole request closes."""
        case = self.case
        entry = torch.arange(case.lengths[request] // case.ratio, device=self.device)
        page = self.block_table[request, entry // case.page_size].long()
        return self.cache.gather(page * case.page_size + entry % case.page_size).cpu()


def _point_padding_somewhere(pages: Pages, rows: Rows) -> Pages:
    """A padded row whose slot is a real one: it must be inert all the same."""
    return replace(pages, slot_mapping=pages.slot_mapping.masked_fill(~rows.valid, 4))


def in_one_pass(compress, case: Case, device: str, padding: int = 0) -> Sequences:
    sequences = Sequences(case, device)
    sequences.feed(compress, [(0, length) for length in case.lengths], padding)
    return sequences


@cache
def formula(case: Case, request: int) -> torch.Tensor:
    """Every entry of a request in float64, from the whole sequence."""
    d, ratio = case.nope + case.rope, case.ratio
    kv, score = case.tokens[request].double().unbind(1)
    rope, entries = rope_for(case.rope, "cpu"), []
    for i in range(case.lengths[request] // ratio):
        values, logits = [], []
        for window in range(case.windows):
            channels = slice(window * d, (window + 1) * d)
            start = (i - (case.windows - 1) + window) * ratio
            if start >= 0:
                values.append(kv[start : start + ratio, channels])
                logits.append(score[start : start + ratio, channels] + case.ape[:, channels].double())
        weights = torch.cat(logits).exp()
        entry = (weights / weights.sum(0) * torch.cat(values)).sum(0)
        entry = entry / (entry.square().mean() + EPS).sqrt() * case.norm.double()
        cos, sin = rope.cos[i * ratio].double(), rope.sin[i * ratio].double()
        even, odd = entry[case.nope :: 2].clone(), entry[case.nope + 1 :: 2].clone()
        entry[case.nope :: 2], entry[case.nope + 1 :: 2] = even * cos - odd * sin, odd * cos + even * sin
        entries.append(entry)
    return torch.stack(entries).float() if entries else torch.zeros(0, d)


CASES = [
    Case(),
    Case(ratio=3, windows=1),
    Case(ratio=1, windows=1, page_size=64),
    Case(ratio=1, windows=2),
    Case(ratio=3, windows=2, page_size=1, state_page_size=1),
    Case(ratio=128, windows=1, lengths=(127, 128, 129, 300), page_size=2, state_page_size=8),
    Case(ratio=5, windows=2, nope=0, rope=8, state_page_size=4),
    Case(nope=448, rope=64, page_size=64, state_page_size=4, lengths=(40, 9)),
]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_equals_the_formula_over_the_whole_sequence(name, case, device):
    sequences = in_one_pass(ALL[name], case, device)
    for request in range(len(case.lengths)):
        assert_near(sequences.entries(request), formula(case, request), 5e-6)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("layout", ["fp8_ds_mla", "fp8", "bf16"])
def test_every_layout_equals_reference(name, layout, device):
    case = Case(layout=layout)
    actual, expected = in_one_pass(FAST[name], case, device), in_one_pass(Reference(), case, device)
    for request in range(len(case.lengths)):
        assert_near(actual.entries(request), expected.entries(request))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("ratio", [1, 3, 4, 128])
@pytest.mark.parametrize("windows", [1, 2])
def test_every_residue_of_the_length(name, ratio, windows, device):
    lengths = tuple(range(windows * ratio, (windows + 1) * ratio))
    case = Case(lengths=lengths, ratio=ratio, windows=windows, nope=4, rope=4)
    sequences = in_one_pass(ALL[name], case, device)
    for request in range(len(case.lengths)):
        assert_near(sequences.entries(request), formula(case, request), 5e-6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("case", "split"),
    [(Case(lengths=(14,), ratio=ratio), split) for ratio in (1, 3, 4) for split in range(1, 14)],
    ids=lambda x: f"ratio={x.ratio}" if isinstance(x, Case) else x,
)
def test_two_chunks_equal_one_pass(name, case, split, device):
    sequences = Sequences(case, device)
    sequences.feed(ALL[name], [(0, split)])
    sequences.feed(ALL[name], [(split, *case.lengths)])
    assert_near(sequences.entries(0), in_one_pass(ALL[name], case, device).entries(0))


@pytest.mark.parametrize("name", ALL)
def test_two_chunks_at_every_residue_of_128(name, device):
    """Each request of one batch is split at another place."""
    splits = range(128, 257)
    case = Case(lengths=(257,) * len(splits), ratio=128, windows=1, nope=4, rope=4, state_page_size=8)
    sequences = Sequences(case, device)
    sequences.feed(ALL[name], [(0, split) for split in splits])
    sequences.feed(ALL[name], [(split, 257) for split in splits])
    for request in range(len(splits)):
        assert_near(sequences.entries(request), formula(case, request), 5e-6)


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_ragged_batch_in_random_chunks_equals_one_pass(name, data):
    case = Case(ratio=data.draw(st.sampled_from([1, 2, 3, 4, 7])), windows=data.draw(st.sampled_from([1, 2])))
    sequences = Sequences(case, "cpu")
    done = [0] * len(case.lengths)
    while done != list(case.lengths):
        stops = [data.draw(st.integers(a, b)) for a, b in zip(done, case.lengths, strict=True)]
        if stops == done:
            stops = list(case.lengths)
        sequences.feed(ALL[name], list(zip(done, stops, strict=True)), data.draw(st.integers(0, 2)))
        done = stops
    for request in range(len(case.lengths)):
        assert_near(sequences.entries(request), formula(case, request), 5e-6)


@pytest.mark.parametrize("name", ALL)
def test_one_token_at_a_time_equals_one_pass(name, device):
    case = Case(lengths=(9, 12))
    sequences = Sequences(case, device)
    for t in range(12):
        sequences.feed(ALL[name], [(min(t, 9), min(t + 1, 9)), (t, t + 1)])
    for request in range(2):
        assert_near(sequences.entries(request), formula(case, request), 5e-6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("layout", ["fp32", "fp8_ds_mla"])
def test_padded_rows_write_nothing(name, layout, device):
    case = Case(layout=layout)
    alone, padded = in_one_pass(ALL[name], case, device), in_one_pass(ALL[name], case, device, padding=5)
    for actual, expected in ((padded.cache, alone.cache), (padded.state, alone.state)):
        assert torch.equal(actual.data.view(torch.uint8), expected.data.view(torch.uint8))


@pytest.mark.parametrize("name", ALL)
def test_stored_scores_carry_the_ape_of_their_position(name, device):
    case = Case(lengths=(7,))
    sequences = in_one_pass(ALL[name], case, device)
    t = torch.arange(7)
    slots = sequences.state_table[0].cpu()[t // 5].long() * 5 + t % 5
    kv, score = sequences.state.gather(slots.to(device)).cpu().chunk(2, 1)
    assert torch.equal(kv, case.tokens[0][:, 0])
    assert torch.equal(score, case.tokens[0][:, 1] + case.ape[t % 4])


@pytest.mark.parametrize("name", ALL)
def test_open_windows_leave_the_cache_alone(name, device):
    sequences = in_one_pass(ALL[name], Case(lengths=(3, 2)), device)
    assert sequences.cache.data.isnan().all()


@pytest.mark.parametrize("name", ALL)
def test_no_tokens(name, device):
    sequences = Sequences(Case(), device)
    sequences.feed(ALL[name], [(0, 0)] * 4)
    assert sequences.cache.data.isnan().all() and sequences.state.data.isnan().all()


@pytest.mark.parametrize("name", ALL)
def test_two_streams_share_the_pages(name, device):
    main, index = Case(nope=64), Case(nope=8, rope=8, seed=1)
    first, second = Sequences(main, device), Sequences(index, device)
    rows = ragged_rows([(0, length) for length in main.lengths], 0, device)
    streams = []
    for case, into in ((main, first), (index, second)):
        kv, score = torch.cat(case.tokens).to(device).unbind(1)
        weights = case.ape.to(device), case.norm.to(device)
        streams.append(Stream(kv, score, *weights, into.state, into.cache, into.tickets))
    state_pages, pages = pages_of(rows, first.state_table, 5), pages_of(rows, first.block_table, 3, main.ratio)
    ALL[name](streams, EPS, first.rope, rows, state_pages, pages)
    for sequences in (first, second):
        for request in range(4):
            assert_near(sequences.entries(request), formula(sequences.case, request), 5e-6)
