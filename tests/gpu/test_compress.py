from dataclasses import dataclass, replace

import pytest
import torch
from kernel_cases import pages_of, poisoned, ragged_rows, rope_for, shuffled_table
from near import assert_same_rows
from suites import suite

from kernels.compress.eager import Compress as Expected
from kernels.compress.fused import Compress
from kernels.contracts import Pages, Stream
from kernels.layouts import PlainCache

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
            streams.append(Stream(None, None, random(self.ratio, row), (1 + random(width) / 4), state, cache))
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


def test_a_state_beyond_32_bits():
    rows, table = ragged_rows([(0, 8)], 0, "cuda"), torch.tensor([[1]], dtype=torch.int32, device="cuda")
    pages = pages_of(rows, table, 64, 4)
    random = torch.randn(8, 2048, device="cuda")
    stored = []
    for count in (3, (1 << 31) // (4 * 2048) + 3):
        state = PlainCache.empty(count, 4, 2048, torch.float32, "cuda")
        cache = poisoned("fp8_ds_mla", 2, 64, 448, 64, "cuda")
        stream = Stream(random[:, :1024], random[:, 1024:], random[:4, :1024], random[0, :512], state, cache)
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
