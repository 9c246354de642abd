"""Slots of hca layers at any width: a graph captured on long steps must read those of short ones where they lie."""

from dataclasses import replace

import pytest
import torch
from attend_cases import AttendCase
from cover_cases import CASES, WIDTHS, Persistent, assert_covered, inputs
from locate_cases import Case

from kernels.attend import decode_split, hopper
from kernels.contracts import Keys
from kernels.cover import widths
from kernels.cover.fused import Cover
from kernels.cover.reference import Cover as Reference
from pipeline.evidence.check import Checker
from tests.gpu.test_graph import built, eager_of, relative

LONG = Case(tuple((n, n + 1) for n in range(31000, 32768, 97)), padding=3, ratio=128, page_size=2)
REAL = [
    LONG,
    Case(((0, 300), (127, 128), (60000, 60900)), ratio=128, page_size=2),
    Case(((1_000_000, 1_000_003), (5, 9)), ratio=128, page_size=2),
]
VARIANTS = ("width_full", "width_adaptive", "width_full_shared", "width_adaptive_shared")
FOUR = ("model.schedule=[hca,hca,hca,hca]",)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES + REAL, ids=repr)
def test_equals_reference_at_every_width(case, width):
    assert_covered(Cover(width), case, "cuda")
    assert_covered(Cover(width, rows_per_program=4, block=512, num_warps=2), case, "cuda")


@pytest.mark.parametrize("kind", ["hca", "all"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_replayed_in_any_order_equals_eager(variant, kind):
    lab = built(kind, variant, overrides=FOUR if kind == "all" else ())
    [arm] = lab.arms
    eager, expected = eager_of(arm), []
    steps = range(len(arm.plan.inputs))
    for step in steps:
        eager.prepare(step)
        expected.append([output.y.clone() for output in eager.step(step)])
    for step in [*steps, *reversed(steps)]:  # each finds what those before it wrote
        arm.prepare(step)
        for output, right in zip(arm.step(step), expected[step], strict=True):
            assert relative(output.y, right) < 2e-3
    found = Checker(lab.reference)(arm)
    assert found.passed, found.detail


@pytest.mark.parametrize("variant", VARIANTS)
def test_layers_share_their_slots_only_where_they_are_asked_to(variant):
    [arm] = built("all", variant, overrides=FOUR).arms
    arm.prepare(0)
    slots = {output.selection.slots.untyped_storage().data_ptr() for output in arm.step(0)}
    assert len(slots) == (1 if variant.endswith("_shared") else 4)


@pytest.mark.parametrize("attend", [hopper.Attend(), decode_split.Attend()], ids=lambda it: type(it).__module__)
@pytest.mark.parametrize(("layout", "right"), [("narrowed", True), ("repacked", False)])
def test_captured_at_full_width_and_replayed_at_a_small_context(layout, right, attend):
    """The builder runs before a replay. With the fault of vLLM #50004 built in, every row but the first is wrong."""
    q, [_, keys], sink, scale = AttendCase(tokens=16, widths=(128, 512), absent=0.0).inputs()
    places = keys.cache.data.shape[0] * keys.cache.page_size
    keys.cache.insert(torch.arange(places, device="cuda"), torch.randn(places, 512, device="cuda"))
    capacity = 8192
    buffer = Persistent(16, capacity, "cuda")
    lengths = torch.zeros(16, dtype=torch.int32, device="cuda")
    cover = Cover("adaptive")

    def case(step: int) -> Case:
        return Case(tuple((n, n + 1) for n in range(step, step + 16)), padding=0, ratio=128, page_size=2)

    def builds(step: int, view) -> None:
        rows, pages, ratio, longest, _ = inputs(case(step), "cuda")
        table = pages.block_table % (places // 2)
        cover.write(
            view(widths.columns("adaptive", longest, capacity)), lengths, rows, replace(pages, block_table=table), ratio
        )

    def attended() -> torch.Tensor:
        return attend(q, [Keys(keys.cache, buffer.slots, lengths)], sink, scale)

    builds(1_040_000, buffer.narrowed)
    attended()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attended()
    for step in (20_000, 900, 33_000):
        rows, pages, ratio, longest, _ = inputs(case(step), "cuda")
        pages = replace(pages, block_table=pages.block_table % (places // 2))
        slots, counts = Reference()(rows, pages, ratio, longest, capacity)
        expected = attend(q, [Keys(keys.cache, slots, counts)], sink, scale)
        builds(step, getattr(buffer, layout))
        graph.replay()
        near = [relative(one, other) < 2e-2 for one, other in zip(out, expected, strict=True)]
        assert near[0] and all(near[1:]) == right and any(near[1:]) == right
