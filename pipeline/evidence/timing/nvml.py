"""What the NVIDIA driver tells of a device (NVML)."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

THROTTLES = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}  # nvmlClocksEventReasons; idle, chosen clocks and the like are not among them
COUNTED = {0: "power cap", 1: "temperature", 3: "board limit", 5: "board reliability"}  # nvmlPerfPolicyType
UNEXPLAINED = 2 << 30  # bytes in use beyond this process's: contexts and the driver take less


class NotWatched(Exception):
    """Why the device cannot be read."""


@dataclass(frozen=True)
class GpuReading:
    """None where the device does not tell.

    `held_back`: nanoseconds since the driver was loaded for which it held the clocks down, by what; empty where it does
    not count them.
    """

    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    temperature_c: float | None
    power_w: float | None
    throttled_by: tuple[str, ...] | None  # at this moment
    others: str  # who else is on the device, or nothing
    held_back: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Gpu:
    """`held`: bytes that this process has on the device."""

    nvml: Any
    handle: Any
    held: Callable[[], int]
    pid: int

    def __call__(self) -> GpuReading:
        nvml, handle = self.nvml, self.handle
        milliwatts = self._told(nvml.nvmlDeviceGetPowerUsage, handle)
        reasons = self._told(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        counted = {name: self._told(nvml.nvmlDeviceGetViolationStatus, handle, kind) for kind, name in COUNTED.items()}
        return GpuReading(
            sm_clock_mhz=self._told(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=self._told(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            temperature_c=self._told(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            power_w=None if milliwatts is None else milliwatts / 1000,
            throttled_by=None if reasons is None else tuple(name for bit, name in THROTTLES.items() if reasons & bit),
            others=self._others(),
            held_back={name: found.violationTime for name, found in counted.items() if found is not None},
        )

    def _told(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return ask(*arguments)
        except self.nvml.NVMLError:
            return None

    def _others(self) -> str:
        """In a container the driver may list processes under foreign ids, or none at all."""
        pids = [
            process.pid for process in self._told(self.nvml.nvmlDeviceGetComputeRunningProcesses, self.handle) or ()
        ]
        if self.pid in pids:
            count = len(pids) - 1
            return f"{_processes(count)} on the device" if count else ""
        if len(pids) > 1:
            return f"{_processes(len(pids) - 1)} on the device, if one of the {len(pids)} it lists is this one"
        memory = self._told(self.nvml.nvmlDeviceGetMemoryInfo, self.handle)
        beyond = 0 if memory is None else memory.used - self.held()
        if beyond > UNEXPLAINED:
            return f"{beyond / 2**30:.0f} GiB of the device's memory are in use and not by this process"
        return ""


def _processes(count: int) -> str:
    return "another process is" if count == 1 else f"{count} other processes are"


def open_gpu(uuid: str, held: Callable[[], int]) -> Gpu:
    """The device of this UUID, without its prefix. NotWatched where the driver does not answer."""
    try:
        import pynvml as nvml
    except ImportError as error:
        raise NotWatched("nvidia-ml-py is not installed") from error
    try:
        nvml.nvmlInit()
        return Gpu(nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}"), held, os.getpid())
    except nvml.NVMLError as error:
        raise NotWatched(f"NVML: {error}") from error
