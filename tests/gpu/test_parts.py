"""Parts as graphs: what the step's own graph does, done again in pieces."""

import pytest
import torch

from pipeline.engine.arms.parts import PER_GRAPH, Place, parts
from pipeline.evidence.breakdown.roof import measured_roof
from pipeline.evidence.timing.clock import clock_for
from tests.gpu.test_graph import VARIANTS, built

DEVICE = torch.device("cuda")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", ["csa", "hca", "3"])
def test_every_part_is_captured_and_leaves_the_caches_as_they_were(variant, kind):
    [arm] = built(kind, variant).arms
    last = len(arm.plan.inputs) - 1
    found = parts([arm], [0, last])
    assert found[-1].place is None and all(part.graphed == {0, 1} for part in found)
    keys = [caches.window.data.clone() for caches in arm.caches]
    for part in found:
        for step in (0, 1):
            part.prepare(step)
            part.step(step)
    torch.cuda.synchronize()
    assert all(torch.equal(before, caches.window.data) for before, caches in zip(keys, arm.caches, strict=True))


def test_stages_are_most_of_a_step():
    """One csa layer, five requests: cold, and without the gaps between its graph's kernels."""
    [arm] = built("csa", "hopper").arms
    found, clock = parts([arm], [0]), clock_for(DEVICE)

    def fastest(runner):
        runner.prepare(0)
        return min(clock(lambda: runner.step(0), ahead=True)[0] for _ in range(30))

    step, idle = fastest(arm), fastest(found[-1])
    whole = [part for part in found if part.place and part.place.within is None]
    alone = {part.place.stage: (fastest(part) - idle) / PER_GRAPH for part in whole}
    assert all(seconds > 0 for seconds in alone.values()), alone
    assert 0.7 * step < sum(alone.values()) < 1.2 * step, (step, alone)
    inside = [part for part in found if part.place and part.place.within == "select"]
    assert {part.place for part in inside} >= {Place("csa", name, "select") for name in ("score", "topk", "locate")}
    assert sum((fastest(part) - idle) / PER_GRAPH for part in inside) < 1.5 * alone["select"]


def test_limits_of_this_machine():
    found = measured_roof(DEVICE, torch.bfloat16, graphs=True)
    assert 1e11 < found.copy_bytes_per_second < 2e13
    assert 1e13 < found.matrix_flops_per_second < 5e15
    assert 1e-7 < found.graph_launch < 1e-5 and found.launch > found.graph_launch
    if torch.cuda.get_device_capability() >= (8, 9):
        assert found.fp8_flops_per_second > found.matrix_flops_per_second
