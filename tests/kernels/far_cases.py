"""Caches beyond 2^31 elements: a kernel must do at a far page, byte for byte, what it does at a near one.

vLLM #47671 multiplied a 32-bit page number by the size of a page. Pages of 480 rows put page 7768 of an fp8_ds_mla
cache beyond 2^31 bytes, as there. On a CPU the memory between is never touched, so it takes none.
"""

import mmap
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from kernel_cases import pages_of, poisoned, ragged_rows, rope_for
from torch import Tensor

from kernels.contracts import Batch, Keys, Pages, Scored, Stream
from kernels.layouts import Cache, Workspace, tickets_for

BEYOND = 1 << 31
PAGE = 7768
SPANS = ((0, 3), (9, 14), (2, 6))


@dataclass(frozen=True)
class Pair:
    """`pages` pages from 1 on of a small cache, and the same ones `shift` pages further in a large one."""

    near: Cache
    far: Cache
    pages: int

    @property
    def shift(self) -> int:
        return len(self.far.data) - len(self.near.data)

    def fill(self, device: str) -> "Pair":
        slots = torch.arange(self.near.page_size, len(self.near.data) * self.near.page_size, device=device)
        rows = torch.randn(len(slots), self.near.width, generator=torch.Generator().manual_seed(0))
        self.near.insert(slots, rows.to(device))
        self.far.data[-self.pages :] = self.near.data[-self.pages :]
        return self

    def there(self, slots: Tensor) -> Tensor:
        """Slots of the near cache in the far one."""
        return torch.where(slots < 0, slots, slots + self.shift * self.near.page_size)

    def pages_there(self, pages: Pages) -> Pages:
        return replace(pages, block_table=pages.block_table + self.shift, slot_mapping=self.there(pages.slot_mapping))

    def same(self) -> bool:
        return torch.equal(*(_bytes(cache.data[-self.pages :]) for cache in (self.near, self.far)))

    def touched(self) -> bool:
        return bool((_bytes(self.near.data) != 255).any())


def pair(layout: str, page_size: int, nope: int, rope: int, pages: int, device: str) -> Pair:
    """Both poisoned where they are looked at."""
    near = poisoned(layout, 1 + pages, page_size, nope, rope, device)
    count = max(PAGE, BEYOND // near.data[0].numel() + 1) + pages
    data = untouched(count * near.data[0].numel(), near.data.dtype, device).view(count, *near.data.shape[1:])
    _bytes(data[-pages - 1 :]).fill_(255)
    assert (count - pages) * data.stride(0) > BEYOND
    return Pair(near, replace(near, data=data), pages)


def untouched(count: int, dtype: torch.dtype, device: str) -> Tensor:
    """On a CPU, memory that is not there before it is touched; what lies before it can be read by a wrong address."""
    if device != "cpu":
        return torch.empty(count, dtype=dtype, device=device)
    held = mmap.mmap(-1, (BEYOND + count) * dtype.itemsize, mmap.MAP_PRIVATE | NO_RESERVE)
    return torch.frombuffer(held, dtype=dtype)[BEYOND:]


NO_RESERVE = mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)


def spread(table: Tensor) -> Tensor:
    """The same table with rows so far apart that the third begins beyond 2^31 elements."""
    stride = (BEYOND >> 1) + 64
    wide = untouched((len(table) - 1) * stride + table.shape[1], table.dtype, str(table.device))
    wide = wide.as_strided(table.shape, (stride, 1))
    assert len(table) >= 3
    return wide.copy_(table)


def table_of(requests: int, columns: int, device: str) -> Tensor:
    """Every request has the pages 1 to columns in an order of its own: reads may share pages."""
    order = [torch.randperm(columns, generator=torch.Generator().manual_seed(seed)) + 1 for seed in range(requests)]
    return torch.stack(order).int().to(device)


def own_table(requests: int, columns: int, device: str) -> Tensor:
    """No page belongs to two requests."""
    return (torch.arange(requests * columns).flip(0) + 1).view(requests, columns).int().to(device)


def ingest_is_the_same(ingest: Callable, layout: str, page_size: int, nope: int, rope: int, device: str, dtype=None):
    rows = ragged_rows(list(SPANS), 2, device)
    table = own_table(3, 16 // page_size + 1, device)
    both = pair(layout, page_size, nope, rope, table.numel(), device)
    pages, tokens = pages_of(rows, table, page_size), len(rows.positions)
    random = _random(device, dtype or torch.float32)
    given = random(tokens, 4, nope + rope), random(tokens, nope + rope), random(nope + rope), 1e-6
    outs = [
        ingest(*given, rope_for(rope, device), rows, both.near, pages),
        ingest(*given, rope_for(rope, device), rows, both.far, both.pages_there(pages)),
    ]
    assert both.touched() and both.same() and torch.equal(*outs)


def compress_is_the_same(compress: Callable, layout: str, nope: int, rope: int, ratio: int, windows: int, device: str):
    """State and entries; in two chunks, so that what was stored is read again."""
    page_size, state_page, width = 2, 4, nope + rope
    chunks = (((0, 3), (0, 9), (0, 2)), ((3, 3 + 2 * ratio), (9, 9 + ratio), (2, 5)))
    longest = 9 + 2 * ratio
    table, state_table = own_table(3, longest // ratio // page_size + 1, device), own_table(3, longest // 4 + 1, device)
    entries = pair(layout, page_size, nope, rope, table.numel(), device)
    state = pair("fp32", state_page, 2 * windows * width, 0, state_table.numel(), device)
    random, angles = _random(device, torch.float32), rope_for(rope, device)
    ape, norm = random(ratio, windows * width), random(width)
    for chunk in chunks:
        rows = ragged_rows(list(chunk), 1, device)
        kv, score = (random(len(rows.positions), windows * width) for _ in range(2))
        stored, closed = pages_of(rows, state_table, state_page), pages_of(rows, table, page_size, ratio)
        near = Stream(kv, score, ape, norm, state.near, entries.near, tickets_for(entries.near))
        compress([near], 1e-6, angles, rows, stored, closed)
        far = replace(near, state=state.far, cache=entries.far, tickets=tickets_for(entries.far))
        pages = state.pages_there(stored)
        pages = replace(pages, block_table=spread(pages.block_table))
        compress([far], 1e-6, angles, rows, pages, entries.pages_there(closed))
    assert entries.touched() and entries.same() and state.touched() and state.same()


def score_is_the_same(score: Callable, layout: str, page_size: int, heads: int, device: str):
    channels, rotated = 128, 64
    rows = ragged_rows([(30, 33), (61, 62), (44, 47)], 2, device)
    table = table_of(3, 64 // page_size + 1, device)
    both = pair(layout, page_size, channels - rotated, rotated, int(table.max()), device).fill(device)
    pages = Pages(table, page_size, torch.full_like(rows.positions, -1).long())
    there = both.pages_there(pages)
    random = _random(device, torch.float32 if device == "cpu" else torch.bfloat16)
    given = (
        random(len(rows.positions), heads, channels),
        random(len(rows.positions), heads),
        rope_for(rotated, device),
        rows,
    )
    near = score(*given, both.near, pages, 1, 62)
    assert near[0, :31].isfinite().all() and (near != 0).any()
    for far in (there, replace(there, block_table=spread(there.block_table))):
        assert torch.equal(score(*given, both.far, far, 1, 62), near)


def gather_is_the_same(gather: Callable, layout: str, page_size: int, nope: int, rope: int, device: str):
    spans = [(30, 33), (61, 62), (0, 7)]
    rows, dtype = ragged_rows(spans, 0, device), torch.float32 if device == "cpu" else torch.bfloat16
    counts, lengths = torch.tensor([0, 3, 1, 7]), torch.tensor([stop for _, stop in spans])
    batch = Batch(rows, counts.cumsum(0).int().to(device), lengths.int().to(device), 62)
    tables = [table_of(3, 62 // ratio // page_size + 1, device) for ratio in (4, 1)]
    main, window = (pair(layout, page_size, nope, rope, table.shape[1], device).fill(device) for table in tables)
    near = [Pages(table, page_size, torch.empty(0, dtype=torch.int64, device=device)) for table in tables]
    far = [main.pages_there(near[0]), window.pages_there(near[1])]
    space = Workspace(62 // 4, 12, 6)

    def rows_of(caches: list[Cache], pages: list[Pages]) -> Tensor:
        made = gather(caches[0], pages[0], caches[1], pages[1], batch, 4, space, dtype).data.view(3, space.rows, -1)
        used = torch.zeros(3, space.rows, dtype=torch.bool)
        for request, (start, stop) in enumerate(spans):
            used[request, : stop // 4] = True
            used[request, space.entries :][: stop - max(start - 5, 0)] = True
        return made[used.to(device)]

    expected = rows_of([main.near, window.near], near)
    assert expected.isfinite().all() and expected.any()
    for pages in (far, [replace(one, block_table=spread(one.block_table)) for one in far]):
        assert torch.equal(rows_of([main.far, window.far], pages), expected)


def attend_is_the_same(attend: Callable, layout: str, page_size: int, nope: int, rope: int, heads: int, device: str):
    both = pair(layout, page_size, nope, rope, 2, device).fill(device)
    random = _random(device, torch.float32 if device == "cpu" else torch.bfloat16)
    generator = torch.Generator().manual_seed(1)
    slots = torch.randint(page_size, 3 * page_size, (5, 70), generator=generator).int()
    slots[torch.rand(slots.shape, generator=generator) < 0.1] = -1
    lengths, slots = torch.tensor([70, 1, 33, 0, 64], dtype=torch.int32, device=device), slots.to(device)
    q, sink = random(5, heads, nope + rope), _random(device, torch.float32)(heads)

    def attended(cache: Cache, slots: Tensor) -> Tensor:
        short = Keys(cache, slots[:, :7].contiguous(), lengths.clamp(max=7))
        return attend(q, [short, Keys(cache, slots, lengths)], sink, 0.1)

    near = attended(both.near, slots)
    assert near.isfinite().all() and near[0].any()
    assert torch.equal(attended(both.far, both.there(slots).int()), near)


def located_slots_are_the_same(locate: Callable, device: str):
    """The largest slots that 32 bits hold, and rows of the block table further apart than 32 bits count."""
    rows, width, page_size = ragged_rows([(30, 33), (61, 62), (44, 47)], 2, device), 24, 4
    table = table_of(3, 62 // 2 // page_size + 1, device)
    shift = BEYOND // page_size - 1 - int(table.max())
    entries = torch.stack([torch.randperm(31)[:width] for _ in rows.positions]).int().to(device)
    chosen = entries.where(entries < rows.visible(2)[:, None], -1)
    for given in ((chosen, Scored(None)), (chosen[3:5], Scored(torch.tensor([3, 4], device=device)))):
        near, lengths = locate(*given, rows, Pages(table, page_size, rows.positions.long()), 2, width)
        far = Pages(spread(table + shift), page_size, rows.positions.long())
        slots, again = locate(*given, rows, far, 2, width)
        assert torch.equal(slots, torch.where(near < 0, near, near + shift * page_size)) and torch.equal(lengths, again)
        assert (near >= 0).any() and int(slots.max()) > BEYOND - 200


def covered_slots_are_the_same(cover: Callable, device: str):
    rows, page_size = ragged_rows([(30, 33), (61, 62), (44, 47)], 2, device), 4
    table = table_of(3, 62 // 2 // page_size + 1, device)
    shift = BEYOND // page_size - 1 - int(table.max())
    near, lengths = cover(rows, Pages(table, page_size, rows.positions.long()), 2, 31, 64)
    far = Pages(spread(table + shift), page_size, rows.positions.long())
    slots, again = cover(rows, far, 2, 31, 64)
    assert torch.equal(slots, torch.where(near < 0, near, near + shift * page_size)) and torch.equal(lengths, again)
    assert int(slots.max()) > BEYOND - 200


def chosen_entries_are_the_same(topk: Callable, device: str):
    """Rows of scores further apart than 32 bits count."""
    scores = torch.randn(3, 300, generator=torch.Generator().manual_seed(0)).to(device)
    visible = torch.tensor([300, 20, 299], dtype=torch.int32, device=device)
    near, far = topk(scores, visible, 48), topk(spread(scores), visible, 48)
    assert torch.equal(near.sort(1).values, far.sort(1).values) and (near[2] >= 0).all()


def _random(device: str, dtype: torch.dtype) -> Callable[..., Tensor]:
    generator = torch.Generator().manual_seed(3)
    return lambda *shape: torch.randn(shape, generator=generator).to(device, dtype)


def _bytes(data: Tensor) -> Tensor:
    return data.view(torch.uint8)
