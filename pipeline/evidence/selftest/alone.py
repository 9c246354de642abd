"""How long waits last by themselves, apart from everything that the self test judges with."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from pipeline.evidence.timing.clock import clock_for

REPEATS = 31
CALLS_ON_GPU = 100
CYCLES = 100_000


def seconds_alone(waits: Sequence[Callable[[], None]], device: torch.device) -> list[float]:
    """Of one call of each; they take turns REPEATS times.

    On a GPU many calls follow each other in one graph, and the median counts. On a CPU the shortest counts: a busy wait
    never ends before its deadline, and what makes it end later is not the wait.
    """
    on_gpu, clock = device.type == "cuda", clock_for(device)
    rows = [_in_a_row(wait, device) for wait in waits] if on_gpu else waits
    for row in rows:
        clock(row)
    taken = np.array([[clock(row)[0] for row in rows] for _ in range(REPEATS)])
    return (np.median(taken, axis=0) / CALLS_ON_GPU if on_gpu else taken.min(axis=0)).tolist()


def cycles_per_second(device: torch.device) -> float | None:
    """None on a CPU."""
    if device.type != "cuda":
        return None
    once, twice = seconds_alone([lambda: torch.cuda._sleep(CYCLES), lambda: torch.cuda._sleep(2 * CYCLES)], device)
    return CYCLES / (twice - once)


def _in_a_row(wait: Callable[[], None], device: torch.device) -> Callable[[], None]:
    wait()
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS_ON_GPU):
            wait()
    return graph.replay
