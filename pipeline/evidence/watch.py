"""The machine while it is timed, read at the edges of blocks."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import torch

from pipeline.evidence.findings import Machine
from pipeline.evidence.nvml import GpuReading, NotWatched, open_gpu

PROC, CPUS = Path("/proc"), Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class CpuReading:
    """None where the system does not tell."""

    load: float | None  # running processes, one-minute average
    mhz: float | None  # median over the cores


def read_cpu(proc: Path = PROC, cpus: Path = CPUS) -> CpuReading:
    load = _first_number(proc / "loadavg")
    kilohertz = [_first_number(file) for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq")]
    told = [value / 1000 for value in kilohertz if value is not None] or _megahertz(proc / "cpuinfo")
    return CpuReading(load, median(told) if told else None)


@dataclass
class Watch:
    """`gpu` None: no device is read; `unwatched` says why, where there is one. `faults`: other reasons against a block.

    A block is void where the device was throttled at either of its edges.
    """

    gpu: Callable[[], GpuReading] | None = None
    cpu: Callable[[], CpuReading] = read_cpu
    unwatched: str = ""
    faults: Sequence[Callable[[], str]] = ()
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    _gpu: list[GpuReading] = field(default_factory=list)
    _cpu: list[CpuReading] = field(default_factory=list)
    _case: list[GpuReading] = field(default_factory=list)
    _blocks: int = 0
    _void: list[str] = field(default_factory=list)

    def at_block_edge(self, first: int, last: int) -> str:
        """Why the block of rounds first to last is void, or nothing. The edge before a first block has no rounds."""
        begins = last < first
        if begins:
            self._case = []
        if self.gpu:
            self._case.append(self.gpu())
            self._gpu.append(self._case[-1])
        self._cpu.append(self.cpu())
        others = [fault() for fault in self.faults]
        if begins:
            return ""
        throttles = dict.fromkeys(name for reading in self._case[-2:] for name in reading.throttled_by)
        reasons = [f"the device was throttled by {name}" for name in throttles] + [fault for fault in others if fault]
        self._blocks += 1
        self._void += ["; ".join(reasons)] if reasons else []
        return "; ".join(reasons)

    @property
    def clock_mhz(self) -> float:
        """Median SM clock since the last case began; NaN where nothing tells."""
        told = [reading.sm_clock_mhz for reading in self._case if reading.sm_clock_mhz is not None]
        return median(told) if told else float("nan")

    def machine(self) -> Machine:
        return Machine(
            blocks=self._blocks,
            void_blocks=len(self._void),
            sm_clock_mhz=_range(reading.sm_clock_mhz for reading in self._gpu),
            memory_clock_mhz=_range(reading.memory_clock_mhz for reading in self._gpu),
            temperature_c=_range(reading.temperature_c for reading in self._gpu),
            power_w=_range(reading.power_w for reading in self._gpu),
            throttled_by=tuple(dict.fromkeys(name for reading in self._gpu for name in reading.throttled_by)),
            load=_range(reading.load for reading in self._cpu),
            cpu_mhz=_range(reading.mhz for reading in self._cpu),
            warnings=tuple(self._warnings()),
        )

    def _warnings(self) -> list[str]:
        found = [f"the device's clocks were not watched: {self.unwatched}"] if self.unwatched else []
        if self.gpu and all(reading.sm_clock_mhz is None for reading in self._gpu):
            found.append("the device does not tell its clocks: none were watched")
        found += dict.fromkeys(reading.others for reading in self._gpu if reading.others)
        load = max((reading.load for reading in self._cpu if reading.load is not None), default=0.0)
        if round(load) > self.cores:
            found.append(
                f"up to {load:.1f} processes were running or waiting for the {self.cores} cores of the machine"
            )
        for reason, count in Counter(self._void).items():
            found.append(f"{count} of {self._blocks} blocks {'is' if count == 1 else 'are'} void: {reason}")
        return found


def watch(device: torch.device, faults: Sequence[Callable[[], str]] = ()) -> Watch:
    """Of the machine, and of the device if that is a GPU."""
    if device.type != "cuda":
        return Watch(faults=faults)
    try:
        uuid = str(torch.cuda.get_device_properties(device).uuid)
        return Watch(open_gpu(uuid, lambda: torch.cuda.memory_reserved(device)), faults=faults)
    except NotWatched as reason:
        return Watch(unwatched=str(reason), faults=faults)


def _range(values: Iterable[float | None]) -> tuple[float, float] | None:
    told = [value for value in values if value is not None]
    return (min(told), max(told)) if told else None


def _first_number(file: Path) -> float | None:
    try:
        return float(file.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _megahertz(cpuinfo: Path) -> list[float]:
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return []
    return [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
