"""Two streams of a layer: launches beside each other take less time than in a row, and wait for what they must."""

import torch

from pipeline.engine.streams import Beside
from pipeline.evidence.timing.clock import clock_for

DEVICE = torch.device("cuda:0")
CYCLES = 400_000  # a wait of one thread, some 200 us


def taken(streams: int) -> float:
    """Seconds of two waits of which neither needs the other, as a graph."""
    beside = Beside.of(DEVICE, streams)

    def both() -> None:
        begun = beside.mark()
        torch.cuda._sleep(CYCLES)
        with beside.after(begun):
            torch.cuda._sleep(CYCLES)
        beside.join()

    both()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        both()
    clock = clock_for(DEVICE)
    return min(clock(graph.replay)[0] for _ in range(9))


def test_two_streams_halve_two_waits():
    assert taken(2) < 0.7 * taken(1)


def test_each_side_sees_what_it_waits_for():
    """Slow writers: without the waits the readers would come first."""
    beside = Beside.of(DEVICE, 2)
    values, there, back = (torch.zeros(1, device=DEVICE) for _ in range(3))
    for number in range(1, 9):
        torch.cuda._sleep(CYCLES)
        values.fill_(number)
        mark = beside.mark()
        with beside.after(mark):
            there.copy_(values)
            torch.cuda._sleep(CYCLES)
            there.add_(1)
        beside.join()
        back.copy_(there)
        assert back.item() == number + 1
