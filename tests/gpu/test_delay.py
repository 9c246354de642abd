"""What the self test puts in is what it says, also inside a graph; what a cold clock flushes is cold."""

import pytest
import torch

from pipeline.engine.arms.delay import waiting
from pipeline.evidence.selftest.alone import cycles_per_second, seconds_alone
from pipeline.evidence.timing.clock import clock_for

DEVICE = torch.device("cuda:0")


def test_a_wait_lasts_longer_by_what_was_asked():
    cycles = cycles_per_second(DEVICE)
    assert 5e8 < cycles < 4e9
    asked = [0.0, 2e-6, 5e-6, 50e-6]
    nothing, *waits = seconds_alone([waiting(seconds, cycles) for seconds in asked], DEVICE)
    assert [wait - nothing for wait in waits] == pytest.approx(asked[1:], rel=0.05, abs=1e-7)


def test_it_adds_as_much_behind_another_kernel_in_a_graph():
    cycles = cycles_per_second(DEVICE)
    values = torch.randn(1 << 20, device=DEVICE)

    def graph(seconds: float) -> torch.cuda.CUDAGraph:
        wait, held = waiting(seconds, cycles), torch.cuda.CUDAGraph()
        with torch.cuda.graph(held):
            for _ in range(20):
                values.mul_(1.0)
                wait()
        return held

    clock, graphs = clock_for(DEVICE), [graph(0.0), graph(3e-6)]
    taken = [[clock(held.replay)[0] for held in graphs] for _ in range(41)]
    plain, longer = torch.tensor(taken).median(dim=0).values.tolist()
    assert (longer - plain) / 20 == pytest.approx(3e-6, rel=0.05)


def test_after_a_flush_a_read_takes_longer():
    values = torch.randn(1 << 22, device=DEVICE)  # 16 MB, a fraction of the L2
    warm, cold = clock_for(DEVICE), clock_for(DEVICE, cold=True)
    seconds = [sorted(clock(values.sum, ahead=True)[0] for _ in range(31))[15] for clock in (warm, cold)]
    assert seconds[1] > 1.1 * seconds[0]
