from dataclasses import dataclass, replace

import pytest
import torch
from kernel_cases import pages_of, poisoned, ragged_rows, rope_for, shuffled_table
from near import assert_same_rows
from suites import suite

from kernels.compress.eager import Compress as Expected
from kernels.compress.fused import Compress
from kernels.contracts import Pages, Rows, Stream
from kernels.layouts import PlainCache, tickets_for

KNOBS = {
    "default": Compress(overlap=True),
    "single": Compress(whole_from=1 << 30, num_warps=8),
    "single, split": Compress(whole_from=1 << 30, tile=512, overlap=True),
    "whole": Compress(whole_from=1),
    "whole, split": Compress(whole_from=1, whole_tile=512, warp_tile=256, overlap=True),
}
STAGE = suite("compress", **KNOBS)


@dataclass(frozen=True)
class Case:
    """One chunk of each request after another; `widths` of the streams, the first one in the main layout."""

    chunks: tuple[tuple[tuple[int, int], ...], ...]
    ratio: int = 4
    windows: int = 2
    widths: tuple[int, ...] = (512, 128)
    layouts: tuple[str, ...] = ("fp8_ds_mla", "fp8")
    page_size: int = 64
    state_page_size: int = 4
    padding: int = 3

    def run(self, compress) -> list[Stream]:
        longest = max(stop for chunk in self.chunks for _, stop in chunk)
        requests = len(self.chunks[0])
        table = shuffled_table(requests, longest // self.ratio // self.page_size + 1, 1, "cuda")
        state_table = shuffled_table(requests, longest // self.state_page_size + 1, 2, "cuda")
        generator = torch.Generator("cuda").manual_seed(0)
        random = lambda *shape: torch.randn(shape, generator=generator, device="cuda")  # noqa: E731
        streams = []
        for width, layout in zip(self.widths, self.layouts, strict=True):
            row = self.windows * width
            cache = poisoned(layout, 1 + table.numel(), self.page_size, width - 64, 64, "cuda")
            state = poisoned("fp32", 1 + state_table.numel(), self.state_page_size, 2 * row, 0, "cuda")
            weights = random(self.ratio, row), 1 + random(width) / 4
            streams.append(Stream(None, None, *weights, state, cache, tickets_for(cache)))
        for chunk in self.chunks:
            rows = ragged_rows(list(chunk), self.padding, "cuda")
            projected = random(len(rows.positions), 2 * self.windows * sum(self.widths))
            parts = iter(projected.split([self.windows * width for width in self.widths for _ in range(2)], -1))
            streams = [replace(stream, kv=next(parts), score=next(parts)) for stream in streams]
            state_pages = pages_of(rows, state_table, self.state_page_size)
            compress(
                streams,
                1e-6,
                rope_for(64, "cuda"),
                rows,
                state_pages,
                pages_of(rows, table, self.page_size, self.ratio),
            )
        return streams


def decode(requests: int, steps: int) -> tuple:
    lengths = [3 + 37 * i for i in range(requests)]
    prefix = tuple((0, length) for length in lengths)
    return (prefix, *(tuple((length + t, length + t + 1) for length in lengths) for t in range(steps)))


def every_residue(ratio: int) -> tuple:
    """A request at each, with a window closed before it; then two tokens more of each."""
    lengths = range(ratio, 2 * ratio)
    return tuple((0, length) for length in lengths), tuple((length, length + 2) for length in lengths)


CSA = Case((((0, 1000), (0, 203), (0, 3)),))
HCA = replace(CSA, ratio=128, windows=1, widths=(512,), layouts=("fp8_ds_mla",), page_size=2, state_page_size=8)
CASES = [
    CSA,
    HCA,
    replace(CSA, chunks=decode(16, 5)),
    replace(CSA, chunks=(((0, 7), (0, 9)), ((7, 12), (9, 11)), ((12, 400), (11, 12)))),
    replace(HCA, chunks=(((0, 100), (0, 127)), ((100, 300), (127, 129)), ((300, 303), (129, 1300)))),
    replace(CSA, layouts=("bf16", "bf16")),
    replace(HCA, chunks=every_residue(128)),
    replace(CSA, chunks=every_residue(8)),
]


@pytest.mark.parametrize("name", KNOBS)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_equals_eager(name, case):
    for actual, expected in zip(case.run(KNOBS[name]), case.run(Expected()), strict=True):
        assert torch.equal(actual.state.data.view(torch.int32), expected.state.data.view(torch.int32))
        assert_same_rows(actual.cache, expected.cache)
        assert not actual.tickets.any()


@pytest.mark.parametrize("name", KNOBS)
def test_the_checks_of_the_stage(name):
    for case in STAGE.CASES:
        STAGE.test_equals_the_formula_over_the_whole_sequence(name, case, "cuda")
    for layout in ("fp32", "fp8_ds_mla"):
        STAGE.test_padded_rows_write_nothing(name, layout, "cuda")
    STAGE.test_one_token_at_a_time_equals_one_pass(name, "cuda")
    STAGE.test_stored_scores_carry_the_ape_of_their_position(name, "cuda")
    STAGE.test_open_windows_leave_the_cache_alone(name, "cuda")
    STAGE.test_two_streams_share_the_pages(name, "cuda")


PIECES = {
    "default": Compress(overlap=True),
    "one by one": Compress(num_warps=8),
    "small": Compress(tile=2048, overlap=True),
    "wide": Compress(tile=8192, num_warps=8),
    "whole": Compress(whole_from=1, overlap=True),
}
CLOSING = {"none": (), "one": (17,), "neighbours": (7, 8, 9), "apart": (0, 31, 63), "all": range(64)}


class Decode:
    """A step of 64 requests, two tokens each and a few padded rows; memory stays where it is from step to step."""

    def __init__(self):
        self.table, self.state_table = (shuffled_table(64, columns, columns, "cuda") for columns in (2, 33))
        self.rows, self.state_pages, self.pages = self._step(())
        tokens = len(self.rows.positions)
        self.projected, self.rope = torch.empty(tokens, 1024, device="cuda"), rope_for(64, "cuda")
        state = poisoned("fp32", 1 + self.state_table.numel(), 8, 1024, 0, "cuda")
        state.data.normal_()
        cache = poisoned("fp8_ds_mla", 1 + self.table.numel(), 2, 448, 64, "cuda")
        weights = torch.randn(128, 512, device="cuda"), torch.randn(512, device="cuda")
        self.stream = Stream(*self.projected.split(512, 1), *weights, state, cache, tickets_for(cache))

    def _step(self, closing) -> tuple[Rows, Pages, Pages]:
        starts = [254 if request in closing else 128 + request for request in range(64)]
        rows = ragged_rows([(start, start + 2) for start in starts], 5, "cuda")
        return rows, pages_of(rows, self.state_table, 8), pages_of(rows, self.table, 2, 128)

    def take(self, closing) -> None:
        """New projections, and a window that closes in each of these requests."""
        self.projected.normal_()
        self.stream.cache.data.fill_(255)
        rows, state_pages, pages = self._step(closing)
        for held, new in ((self.state_pages, state_pages), (self.pages, pages)):
            held.slot_mapping.copy_(new.slot_mapping)
        self.rows.positions.copy_(rows.positions)

    def run(self, compress) -> None:
        compress([self.stream], 1e-6, self.rope, self.rows, self.state_pages, self.pages)

    def left(self) -> tuple[torch.Tensor, torch.Tensor]:
        assert not self.stream.tickets.any()
        return self.stream.state.data.clone(), self.stream.cache.data.clone()

    def check(self) -> None:
        """Against torch, on the same memory."""
        _, cache = self.left()
        self.stream.cache.data.fill_(255)
        self.run(Expected())
        assert_same_rows(replace(self.stream.cache, data=cache), self.stream.cache)


@pytest.mark.parametrize("name", PIECES)
def test_pieces_of_one_call_after_another(name):
    """A piece that is read before it is there is that of the call before."""
    decode = Decode()
    for number in range(60):
        closing = list(CLOSING.values())[number % len(CLOSING)]
        decode.take(closing)
        decode.run(PIECES[name])
        written = (decode.stream.cache.data != 255).any(1)
        assert int(written.sum()) == len(closing)
        decode.check()


@pytest.mark.parametrize("name", PIECES)
def test_replayed_as_a_graph_it_gives_what_it_gives_eagerly(name):
    compress, decode = PIECES[name], Decode()
    decode.take(CLOSING["one"])
    decode.run(compress)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            decode.run(compress)
    for closing in CLOSING.values():
        decode.take(closing)
        decode.run(compress)
        state, cache = decode.left()
        for _ in range(3):
            decode.stream.cache.data.fill_(255)
            graph.replay()
            again, entries = decode.left()
            assert torch.equal(again, state) and torch.equal(entries, cache)
            decode.run(compress)
        decode.check()


def test_a_state_beyond_32_bits():
    rows, table = ragged_rows([(0, 8)], 0, "cuda"), torch.tensor([[1]], dtype=torch.int32, device="cuda")
    pages = pages_of(rows, table, 64, 4)
    random = torch.randn(8, 2048, device="cuda")
    stored = []
    for count in (3, (1 << 31) // (4 * 2048) + 3):
        state = PlainCache.empty(count, 4, 2048, torch.float32, "cuda")
        cache = poisoned("fp8_ds_mla", 2, 64, 448, 64, "cuda")
        weights = random[:4, :1024], random[0, :512]
        stream = Stream(random[:, :1024], random[:, 1024:], *weights, state, cache, tickets_for(cache))
        state_table = torch.tensor([[count - 2, count - 1]], dtype=torch.int32, device="cuda")
        for start in (0, 4):
            part = torch.arange(start, start + 4, device="cuda")
            now = replace(stream, kv=stream.kv[part], score=stream.score[part])
            mapping = pages_of(rows, state_table, 4).slot_mapping[part]
            state_pages = Pages(state_table, 4, mapping)
            rope = rope_for(64, "cuda")
            entries = Pages(table, 64, pages.slot_mapping[part])
            Compress()([now], 1e-6, rope, rows.take(part), state_pages, entries)
        stored.append((state.data[-2:].clone(), cache.data.clone()))
    assert torch.equal(stored[0][0], stored[1][0]) and torch.equal(stored[0][1], stored[1][1])
    assert stored[0][0].any(-1).all()
