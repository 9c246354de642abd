import time

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
