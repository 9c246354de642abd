"""How long a call takes until its result is there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter_ns
from typing import Protocol, TypeVar

import torch

from pipeline.engine.arms.flush import reading

Result = TypeVar("Result")
CYCLES_PER_SECOND = 2e9  # of a GPU, about
FIRST_LEAD, LONGEST_LEAD = 1e-4, 0.1  # seconds
AMPLE = 2.0  # times what a launch took
FORGOTTEN = 0.9  # a call
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
CACHE_IF_UNTOLD = 64 << 20


class Clock(Protocol):
    """`late`: calls so far that were to be hidden ahead and were not, so that what they took holds the host's time."""

    @property
    def late(self) -> int: ...

    def __call__(self, call: Callable[[], Result], ahead: bool = False) -> tuple[float, Result]:
        """Seconds and what the call returned. `ahead`: of the device alone, as where the host runs ahead of it."""


@dataclass(frozen=True)
class CpuClock:
    """Nothing is ahead of a CPU."""

    late: int = 0

    def __call__(self, call: Callable[[], Result], ahead: bool = False) -> tuple[float, Result]:
        start = perf_counter_ns()
        result = call()
        return (perf_counter_ns() - start) * 1e-9, result


@dataclass
class CudaClock:
    """From the moment an idle GPU could begin to the end of the last kernel, launches on the way included.

    Ahead, the GPU is kept busy outside the window for so long that the host has launched the call meanwhile, as the
    step before does in an engine whose host runs ahead. Where the window began before the host was done, the call is
    late, and the next one is given twice as long. What is launched ahead must fit into the device's queue.
    """

    device: torch.device
    late: int = 0
    _lead: float = FIRST_LEAD  # seconds

    def __call__(self, call: Callable[[], Result], ahead: bool = False) -> tuple[float, Result]:
        with torch.cuda.device(self.device):
            start, end = self._events
            torch.cuda.synchronize()
            if ahead:
                torch.cuda._sleep(int(self._lead * CYCLES_PER_SECOND))
            launched = perf_counter_ns()
            start.record()
            result = call()
            end.record()
            if ahead:
                self._learn((perf_counter_ns() - launched) * 1e-9, late=start.query())
            end.synchronize()
        return start.elapsed_time(end) * 1e-3, result

    def _learn(self, launching: float, late: bool) -> None:
        self.late += late
        lead = 2 * self._lead if late else max(AMPLE * launching, FORGOTTEN * self._lead)
        self._lead = min(lead, LONGEST_LEAD)

    @cached_property
    def _events(self) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        """Recorded once, for CUDA makes an event when it is first recorded, and that is not to be timed."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        end.record()
        return start, end


@dataclass(frozen=True)
class ColdClock:
    """Empties the caches before each call, outside its window."""

    clock: Clock
    flush: Callable[[], object]

    @property
    def late(self) -> int:
        return self.clock.late

    def __call__(self, call: Callable[[], Result], ahead: bool = False) -> tuple[float, Result]:
        self.flush()
        return self.clock(call, ahead)


def clock_for(device: torch.device, cold: bool = False) -> Clock:
    clock = CudaClock(device) if device.type == "cuda" else CpuClock()
    return ColdClock(clock, emptying(device)) if cold else clock


def emptying(device: torch.device) -> Callable[[], object]:
    """Puts something else into the caches, more than the last level of them holds."""
    if device.type == "cuda":
        return reading(device)
    words = torch.zeros(2 * last_level_cache() // 8, dtype=torch.int64)
    return lambda: words.add_(1)  # a plain store of so much may go around the caches


def last_level_cache(told: Path = CACHES) -> int:
    """Bytes of the CPU's largest cache."""
    sizes = [file.read_text().strip() for file in told.glob("index*/size")]
    units = {"K": 1 << 10, "M": 1 << 20}
    return max((int(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units), default=CACHE_IF_UNTOLD)
