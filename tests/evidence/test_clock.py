import time

import pytest
import torch

from pipeline.evidence.clock import CpuClock, CudaClock, clock_for


def test_a_call_takes_as_long_as_it_takes_and_returns_what_it_returns():
    seconds, result = CpuClock()(lambda: time.sleep(0.02) or "there")
    assert result == "there"
    assert 0.02 <= seconds < 1.0


def test_the_clock_costs_next_to_nothing():
    clock = CpuClock()
    assert min(clock(lambda: None)[0] for _ in range(100)) < 2e-5


def test_the_device_picks_the_clock():
    assert clock_for(torch.device("cpu")) == CpuClock()
    assert clock_for(torch.device("cuda:1")) == CudaClock(torch.device("cuda:1"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
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
