import os
from types import SimpleNamespace

import pytest

from pipeline.evidence.timing.nvml import Gpu, GpuReading, NotWatched, open_gpu

GIB = 1 << 30


class NVMLError(Exception):
    pass


class Driver:
    """A device that can do what it is told to."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(
        self,
        reasons: int = 0,
        pids: tuple[int, ...] = (7,),
        used: int = GIB,
        mute: bool = False,
        held_back: dict[int, int] | None = None,
    ):
        self.reasons, self.pids, self.used, self.mute, self.held_back = reasons, pids, used, mute, held_back or {}

    def told(self, value):
        if self.mute:
            raise NVMLError("Not Supported")
        return value

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return self.told({1: 1980, 2: 3201}[kind])

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return self.told(41)

    def nvmlDeviceGetPowerUsage(self, handle):
        return self.told(312_500)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self.told(self.reasons)

    def nvmlDeviceGetViolationStatus(self, handle, kind):
        if kind not in self.held_back:
            raise NVMLError("Not Supported")
        return SimpleNamespace(referenceTime=1, violationTime=self.held_back[kind])

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return self.told([SimpleNamespace(pid=pid) for pid in self.pids])

    def nvmlDeviceGetMemoryInfo(self, handle):
        return self.told(SimpleNamespace(used=self.used))


def gpu(held: int = 0, **driver) -> Gpu:
    return Gpu(Driver(**driver), "handle", lambda: held, pid=7)


def test_a_reading():
    assert gpu()() == GpuReading(1980, 3201, 41, 312.5, (), "")


def test_what_the_device_does_not_tell_is_none():
    assert gpu(mute=True)() == GpuReading(None, None, None, None, None, "")


def test_how_long_the_clocks_were_held_down_as_far_as_the_device_counts_it():
    import pynvml as nvml

    counted = {nvml.NVML_PERF_POLICY_POWER: 5, nvml.NVML_PERF_POLICY_THERMAL: 6, nvml.NVML_PERF_POLICY_BOARD_LIMIT: 0}
    idle = {nvml.NVML_PERF_POLICY_LOW_UTILIZATION: 9, nvml.NVML_PERF_POLICY_TOTAL_APP_CLOCKS: 9}
    assert gpu(held_back=counted | idle)().held_back == {"power cap": 5, "temperature": 6, "board limit": 0}


@pytest.mark.parametrize(
    ("reasons", "names"),
    [
        (0x01 | 0x02 | 0x10 | 0x100, ()),  # idle, clocks that somebody chose, sync boost, display
        (0x04, ("power cap",)),
        (0x08 | 0x80, ("hardware slowdown", "power brake")),
        (0x20 | 0x40, ("temperature (software)", "temperature (hardware)")),
    ],
)
def test_throttle_reasons(reasons, names):
    assert gpu(reasons=reasons)().throttled_by == names


@pytest.mark.parametrize(
    ("pids", "used", "held", "others"),
    [
        ((7, 8), 0, 0, "another process is on the device"),
        ((5, 7, 8), 0, 0, "2 other processes are on the device"),
        ((1, 2), 0, 0, "another process is on the device, if one of the 2 it lists is this one"),
        ((1,), 40 * GIB, 39 * GIB, ""),
        ((1,), 40 * GIB, 10 * GIB, "30 GiB of the device's memory are in use and not by this process"),
        ((), 40 * GIB, 10 * GIB, "30 GiB of the device's memory are in use and not by this process"),
        ((), 3 * GIB, 2 * GIB, ""),
    ],
)
def test_others_on_the_device(pids, used, held, others):
    assert gpu(held, pids=pids, used=used)().others == others


def test_no_driver_is_a_reason_and_never_a_crash(monkeypatch):
    import pynvml

    def fails():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fails)
    with pytest.raises(NotWatched, match="NVML: "):
        open_gpu("0-0", lambda: 0)


def test_no_binding_is_a_reason(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    with pytest.raises(NotWatched, match="nvidia-ml-py is not installed"):
        open_gpu("0-0", lambda: 0)


def test_the_device_is_found_by_its_uuid(monkeypatch):
    import pynvml

    asked = []
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: asked.append(uuid) or "handle")
    found = open_gpu("1234-5678", lambda: 0)
    assert asked == ["GPU-1234-5678"] and found.handle == "handle" and found.pid == os.getpid()
