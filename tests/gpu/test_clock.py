import time

import torch

from pipeline.evidence.timing.clock import CudaClock


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

    clock = CudaClock(torch.device("cuda:0"))
    for _ in range(8):
        clock(launches, ahead=True)
    learnt = clock.late
    slow, fast = (min(clock(launches, ahead)[0] for _ in range(10)) for ahead in (False, True))
    assert fast < 0.9 * slow
    assert clock.late <= learnt + 1


def test_a_launch_that_outlasts_what_hides_it_is_counted():
    """The host sleeps between two launches for longer than the device is kept busy at first."""
    clock = CudaClock(torch.device("cuda:0"))
    for _ in range(2):
        clock(lambda: time.sleep(0.005), ahead=True)
    assert clock.late == 2
    for _ in range(8):
        clock(lambda: time.sleep(0.005), ahead=True)
    found = clock.late
    assert 4 <= found <= 8, "twice as long each time, from 0.1 ms on"
    seconds, _ = clock(lambda: time.sleep(0.005), ahead=True)
    assert clock.late == found and seconds < 0.001
