import pytest
import torch
from cover_cases import CASES, WIDTHS, Persistent, assert_covered, inputs
from locate_cases import Case

from kernels.attend.reference import Attend
from kernels.contracts import Keys
from kernels.cover import eager, reference
from kernels.cover.widths import columns
from kernels.layouts import PlainCache, slots_of


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_reference_names_every_visible_entry_once_in_order(case, device):
    rows, pages, ratio, longest, _ = arguments = inputs(case, device)
    slots, lengths = reference.Cover()(*arguments)
    assert slots.shape == (len(rows.positions), longest)
    for token, position in enumerate(rows.positions.tolist()):
        visible = (position + 1) // ratio if rows.valid[token] else 0
        entries = torch.arange(visible, device=slots.device)
        expected = slots_of(pages.block_table, rows.request[token], entries, pages.page_size)
        assert slots[token].tolist() == expected.tolist() + [-1] * (longest - visible)
        assert int(lengths[token]) == visible


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_eager_equals_reference_at_every_width(case, width, device):
    assert_covered(eager.Cover(width), case, device)


def test_adaptive_is_the_next_power_of_two_from_128_up_to_what_there_can_be():
    found = {longest: columns("adaptive", longest, 8192) for longest in (0, 1, 128, 129, 256, 257, 8191, 8192)}
    assert found == {0: 128, 1: 128, 128: 128, 129: 256, 256: 256, 257: 512, 8191: 8192, 8192: 8192}
    assert columns("adaptive", 3, 100) == 100


@pytest.mark.parametrize(("layout", "right"), [("narrowed", True), ("repacked", False)])
def test_a_consumer_captured_at_full_width_reads_narrower_steps(layout, right, device):
    """Captured on a long step, replayed on a short one with two rows: equals eager, unless rows were moved."""
    long, short = Case(spans=((700, 701), (650, 651)), padding=0), Case(spans=((11, 12), (23, 24)), padding=0)
    buffer, lengths = Persistent(2, 512, device), torch.zeros(2, dtype=torch.int32, device=device)
    generator = torch.Generator().manual_seed(0)
    cache = PlainCache(torch.randn(200, 3, 16, generator=generator).to(device))
    q = torch.randn(2, 3, 16, generator=generator).to(device)

    def built(case: Case) -> None:
        """What the builder does before a replay."""
        slots, counts = reference.Cover()(*inputs(case, device))
        getattr(buffer, layout)(slots.shape[1]).copy_(slots)
        lengths.copy_(counts)

    def captured() -> torch.Tensor:
        return Attend()(q, [Keys(cache, buffer.slots, lengths)], None, 0.25)

    def eagerly(case: Case) -> torch.Tensor:
        return Attend()(q, [Keys(cache, *reference.Cover()(*inputs(case, device)))], None, 0.25)

    built(long)
    captured()
    built(short)
    same = (captured() == eagerly(short)).flatten(1).all(1)
    assert same.tolist() == [True, right], "row 0 never shows it"
