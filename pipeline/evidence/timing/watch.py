"""The machine while it is timed, read at the edges of blocks."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from time import monotonic_ns

import torch

from pipeline.evidence.findings import Machine
from pipeline.evidence.samples import AT_POWER_CAP, capped
from pipeline.evidence.timing.nvml import GpuReading, NotWatched, open_gpu

PROC, CPUS = Path("/proc"), Path("/sys/devices/system/cpu")
TOLERATED = 0.01  # of a block's time for which the device may have been held back


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

    A block is void where the device was throttled at either of its edges, or for more than TOLERATED of the time
    between them as far as the device counts that; not where nearly every block of a case ran at the power cap, as that
    is what the case does to the device. Blocks of what is measured again from its start count once.
    """

    gpu: Callable[[], GpuReading] | None = None
    cpu: Callable[[], CpuReading] = read_cpu
    unwatched: str = ""
    faults: Sequence[Callable[[], str]] = ()
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    now: Callable[[], int] = monotonic_ns
    _gpu: list[GpuReading] = field(default_factory=list)
    _cpu: list[CpuReading] = field(default_factory=list)
    _case: list[GpuReading] = field(default_factory=list)
    _edge: int = 0  # when the last one was, in nanoseconds
    _throttles: dict[str, None] = field(default_factory=dict)  # between edges
    _void: dict[str, list[str]] = field(default_factory=dict)  # case -> of each of its blocks why it is void

    def edges_of(self, what: str) -> Callable[[int, int], str]:
        """What is to be called at the edges of the blocks of a case, or of something else: its name has an @."""
        return partial(self._at_edge, what)

    def _at_edge(self, what: str, first: int, last: int) -> str:
        """Why the block of rounds first to last is void, or nothing. The edge before a first block has no rounds."""
        begins, now = last < first, self.now()
        if begins:
            self._case, self._void[what] = [], []
        if self.gpu:
            self._case.append(self.gpu())
            self._gpu.append(self._case[-1])
        self._cpu.append(self.cpu())
        others = [fault() for fault in self.faults]
        passed, self._edge = now - self._edge, now
        if begins:
            return ""
        throttles = _throttles(self._case[-2:], TOLERATED * passed)
        self._throttles |= throttles
        reasons = [f"the device was throttled by {name}" for name in throttles] + [fault for fault in others if fault]
        self._void[what].append("; ".join(reasons))
        return self._void[what][-1]

    @property
    def clock_mhz(self) -> float:
        """Median SM clock since the last case began; NaN where nothing tells."""
        told = [reading.sm_clock_mhz for reading in self._case if reading.sm_clock_mhz is not None]
        return median(told) if told else float("nan")

    def machine(self) -> Machine:
        of_cases = [blocks for case, blocks in self._void.items() if "@" not in case]
        void = [reason * (not capped(blocks)) for blocks in of_cases for reason in blocks]
        return Machine(
            blocks=len(void),
            void_blocks=len(void) - void.count(""),
            sm_clock_mhz=_range(reading.sm_clock_mhz for reading in self._gpu),
            memory_clock_mhz=_range(reading.memory_clock_mhz for reading in self._gpu),
            temperature_c=_range(reading.temperature_c for reading in self._gpu),
            power_w=_range(reading.power_w for reading in self._gpu),
            throttled_by=self._throttled_by(),
            load=_range(reading.load for reading in self._cpu),
            cpu_mhz=_range(reading.mhz for reading in self._cpu),
            warnings=tuple(self._warnings()),
        )

    def _throttled_by(self) -> tuple[str, ...] | None:
        told = [reading for reading in self._gpu if reading.throttled_by is not None or reading.held_back]
        if self._gpu and not told:
            return None
        at_edges = (name for reading in told for name in reading.throttled_by or ())
        return tuple(dict.fromkeys([*at_edges, *self._throttles]))

    def _warnings(self) -> list[str]:
        found = [f"the device's clocks were not watched: {self.unwatched}"] if self.unwatched else []
        if self._gpu and all(reading.sm_clock_mhz is None for reading in self._gpu):
            found.append("the device does not tell its clocks: none were watched")
        if self._gpu and not any(reading.held_back for reading in self._gpu):
            found.append(
                "the device does not tell whether it was throttled"
                if self._throttled_by() is None
                else "the device does not count how long it was throttled: only the edges of blocks were seen"
            )
        found += dict.fromkeys(reading.others for reading in self._gpu if reading.others)
        load = max((reading.load for reading in self._cpu if reading.load is not None), default=0.0)
        if round(load) > self.cores:
            found.append(
                f"up to {load:.1f} processes were running or waiting for the {self.cores} cores of the machine"
            )
        void: dict[str, list[str]] = {}
        at_the_cap = [case for case, blocks in self._void.items() if capped(blocks)]
        for case, blocks in self._void.items():
            for reason, count in Counter(filter(None, () if case in at_the_cap else blocks)).items():
                void.setdefault(reason, []).append(f"{count} of {len(blocks)} blocks{f' of {case}' if case else ''}")
        if at_the_cap:
            found.append(f"{AT_POWER_CAP} nearly always in {', '.join(at_the_cap)}: so fast it runs this load")
        return found + [f"void: {', '.join(counts)}: {reason}" for reason, counts in void.items()]


def watch(device: torch.device, faults: Sequence[Callable[[], str]] = ()) -> Watch:
    """Of the machine, and of the device if that is a GPU."""
    if device.type != "cuda":
        return Watch(faults=faults)
    try:
        uuid = str(torch.cuda.get_device_properties(device).uuid)
        return Watch(open_gpu(uuid, lambda: torch.cuda.memory_reserved(device)), faults=faults)
    except NotWatched as reason:
        return Watch(unwatched=str(reason), faults=faults)


def _throttles(edges: Sequence[GpuReading], tolerated: float) -> dict[str, None]:
    """By what the device was throttled at the edges of a block, or for more nanoseconds than tolerated between them."""
    before, after = edges[0].held_back if edges else {}, edges[-1].held_back if edges else {}
    between = [name for name, nanoseconds in after.items() if nanoseconds - before.get(name, nanoseconds) > tolerated]
    return dict.fromkeys([*(name for reading in edges for name in reading.throttled_by or ()), *between])


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
