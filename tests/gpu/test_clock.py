import time

import torch

from pipeline.evidence.clock import CudaClock


def test_kernels_that_run_on_after_the_launch_are_counted():
    """failure case C06"""
    cycles = 20_000_000  # about 10 ms
    clock = CudaClock(torch.device("cuda:0"))
    clock(lambda: torch.cuda._sleep(cycles))
    launch = time.perf_counter()
    torch.cuda._sleep(cycles)
    launch = time.perf_counter() - launch
    seconds, _ = clock(lambda: torch.cuda._sleep(cycles))
    assert launch < 0.002 < 0.005 < seconds < 0.1
    assert clock(lambda: None)[0] < 0.001
