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


def test_a_host_that_runs_ahead_is_not_counted():
    """200 launches take the host longer than the device takes for what they launch."""
    x = torch.zeros(1, device="cuda")

    def launches() -> None:
        for _ in range(200):
            x.add_(1)

    waiting, ahead = (CudaClock(torch.device("cuda:0"), ahead=flag) for flag in (False, True))
    for clock in (waiting, ahead):
        for _ in range(5):
            clock(launches)
    slow, fast = (min(clock(launches)[0] for _ in range(10)) for clock in (waiting, ahead))
    assert fast < 0.9 * slow
