import math
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from pipeline.evidence.timing import clock as module
from pipeline.evidence.timing.clock import (
    CYCLES_PER_SECOND,
    ColdClock,
    CpuClock,
    CudaClock,
    clock_for,
    last_level_cache,
)


def test_a_call_takes_as_long_as_it_takes_and_returns_what_it_returns():
    seconds, result = CpuClock()(lambda: time.sleep(0.02) or "there")
    assert result == "there"
    assert 0.02 <= seconds < 1.0


@pytest.mark.xdist_group("cores")
def test_the_clock_costs_next_to_nothing():
    clock = CpuClock()
    assert min(clock(lambda: None)[0] for _ in range(100)) < 2e-5


def test_the_device_picks_the_clock():
    assert clock_for(torch.device("cpu")) == CpuClock()
    assert clock_for(torch.device("cuda:1")) == CudaClock(torch.device("cuda:1"))


def test_a_cold_clock_overwrites_before_each_call_outside_its_window():
    log = []

    def clock(call, ahead):
        log.append("start ahead" if ahead else "start")
        result = call()
        log.append("stop")
        return 1.0, result

    clock.late = 7
    cold = ColdClock(clock, lambda: log.append("overwrite"))
    assert cold(lambda: log.append("call") or "it") == (1.0, "it")
    cold(lambda: None, ahead=True)
    assert log == ["overwrite", "start", "call", "stop", "overwrite", "start ahead", "stop"]
    assert cold.late == 7


def test_cold_on_a_cpu_writes_more_than_its_caches_hold():
    cold = clock_for(torch.device("cpu"), cold=True)
    assert isinstance(cold, ColdClock) and cold.clock == CpuClock()
    [words] = [cell.cell_contents for cell in cold.flush.__closure__]
    before = words[[0, -1]].clone()
    cold(lambda: None)
    assert words.nbytes > last_level_cache()
    assert (words[[0, -1]] == before + 1).all()


def test_the_last_level_cache_is_the_largest_that_the_system_tells(tmp_path):
    for number, size in enumerate(["32K", "1024K\n", "33M"]):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(size)
    assert last_level_cache(tmp_path) == 33 << 20
    assert last_level_cache(tmp_path / "nowhere") == 64 << 20


class Device:
    """A GPU in simulated time: it does one thing after the other, and the host goes its own way."""

    def __init__(self):
        self.host = self.free = 0.0
        self.slept = []

    def busy(self, seconds: float) -> None:
        self.free = max(self.free, self.host) + seconds

    def synchronize(self) -> None:
        self.host = max(self.host, self.free)

    def _sleep(self, cycles: int) -> None:
        self.slept.append(cycles / CYCLES_PER_SECOND)
        self.busy(self.slept[-1])

    def Event(self, enable_timing: bool) -> "Event":
        return Event(self)

    device = staticmethod(lambda _: nullcontext())


class Event:
    def __init__(self, device: Device):
        self.device, self.at = device, 0.0

    def record(self) -> None:
        self.at = max(self.device.free, self.device.host)

    def query(self) -> bool:
        return self.at <= self.device.host

    def synchronize(self) -> None:
        self.device.host = max(self.device.host, self.at)

    def elapsed_time(self, end: "Event") -> float:
        return 1e3 * (end.at - self.at)


@pytest.fixture
def gpu(monkeypatch) -> Device:
    made = Device()
    monkeypatch.setattr(module, "torch", SimpleNamespace(cuda=made, device=torch.device))
    monkeypatch.setattr(module, "perf_counter_ns", lambda: made.host * 1e9)
    return made


def launching(gpu: Device, host: float, device: float):
    """A call of one kernel that the host takes `host` seconds to launch and the device `device` to run."""

    def call() -> None:
        gpu.host += host
        gpu.busy(device)

    return call


def test_from_an_idle_device_a_time_holds_the_launch(gpu):
    clock = CudaClock(torch.device("cuda"))
    assert clock(launching(gpu, 3e-5, 1e-4))[0] == pytest.approx(1.3e-4)
    assert (gpu.slept, clock.late) == ([], 0)


def test_ahead_a_time_is_the_devices_alone(gpu):
    clock = CudaClock(torch.device("cuda"))
    for _ in range(20):
        assert clock(launching(gpu, 3e-5, 1e-4), ahead=True)[0] == pytest.approx(1e-4)
    assert clock.late == 0
    assert gpu.slept[0] == pytest.approx(1e-4) and gpu.slept[-1] == pytest.approx(6e-5, rel=0.01), "twice the launch"


@pytest.mark.parametrize("host", [3e-4, 5e-3, 0.04])
def test_a_launch_that_outlasts_what_hides_it_is_counted_until_it_is_hidden(gpu, host):
    """However long it takes: no estimate is cut off in silence."""
    clock, found = CudaClock(torch.device("cuda")), []
    for _ in range(30):
        before = clock.late
        seconds, _ = clock(launching(gpu, host, 1e-4), ahead=True)
        found.append((clock.late > before, seconds > 1.01e-4))
    assert all(late == wrong for late, wrong in found), "what is counted is what holds the host's time"
    doublings = math.ceil(math.log2(host / 1e-4))
    assert clock.late == doublings and [late for late, _ in found] == [True] * doublings + [False] * (30 - doublings)
    assert found[-1] == (False, False)


def test_what_cannot_be_hidden_is_counted_every_time_and_never_waited_for_without_end(gpu):
    clock = CudaClock(torch.device("cuda"))
    for _ in range(40):
        clock(launching(gpu, 1.0, 1e-4), ahead=True)
    assert clock.late == 40 and max(gpu.slept) == pytest.approx(0.1)


def test_one_stall_of_the_host_is_one_late_call(gpu):
    clock = CudaClock(torch.device("cuda"))
    for _ in range(20):
        clock(launching(gpu, 3e-5, 1e-4), ahead=True)
    assert clock(launching(gpu, 2.0, 1e-4), ahead=True)[0] > 1.9 and clock.late == 1
    slept = len(gpu.slept)
    for _ in range(20):
        assert clock(launching(gpu, 3e-5, 1e-4), ahead=True)[0] == pytest.approx(1e-4)
    assert clock.late == 1 and sum(gpu.slept[slept:]) < 0.01, "the stall is not made up for by waiting"
