"""How long a call takes until its result is there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter_ns
from typing import Protocol, TypeVar

import torch

Result = TypeVar("Result")
FLUSHED_ON_GPU = 256 << 20  # bytes; no GPU has half as much cache
CYCLES_PER_SECOND = 2e9  # of a GPU, about
LEAD = 2.0  # over the longest launch of late
FORGOTTEN = 0.9  # a call
LONGEST_LAUNCH = 2e-3  # seconds
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
CACHE_IF_UNTOLD = 64 << 20


class Clock(Protocol):
    def __call__(self, call: Callable[[], Result]) -> tuple[float, Result]:
        """Seconds and what the call returned."""


@dataclass(frozen=True)
class CpuClock:
    def __call__(self, call: Callable[[], Result]) -> tuple[float, Result]:
        start = perf_counter_ns()
        result = call()
        return (perf_counter_ns() - start) * 1e-9, result


@dataclass
class CudaClock:
    """From the moment an idle GPU could begin to the end of the last kernel, launches on the way included.

    `ahead`: the GPU is kept busy, outside the window, until the host has launched the call, as the step before does in
    an engine whose host runs ahead. What the window holds is the device's time alone.
    """

    device: torch.device
    ahead: bool = False
    _launching: float = 0.0  # seconds, the longest of late

    def __call__(self, call: Callable[[], Result]) -> tuple[float, Result]:
        with torch.cuda.device(self.device):
            start, end = self._events
            torch.cuda.synchronize()
            if self.ahead:
                torch.cuda._sleep(int(LEAD * self._launching * CYCLES_PER_SECOND))
            launched = perf_counter_ns()
            start.record()
            result = call()
            end.record()
            seconds = (perf_counter_ns() - launched) * 1e-9
            self._launching = min(max(seconds, FORGOTTEN * self._launching), LONGEST_LAUNCH)
            end.synchronize()
        return start.elapsed_time(end) * 1e-3, result

    @cached_property
    def _events(self) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        """Recorded once, for CUDA makes an event when it is first recorded, and that is not to be timed."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        end.record()
        return start, end


@dataclass(frozen=True)
class ColdClock:
    """Overwrites the caches before each call, outside its window."""

    clock: Clock
    flush: Callable[[], None]

    def __call__(self, call: Callable[[], Result]) -> tuple[float, Result]:
        self.flush()
        return self.clock(call)


def clock_for(device: torch.device, cold: bool = False, ahead: bool = False) -> Clock:
    clock = CudaClock(device, ahead) if device.type == "cuda" else CpuClock()
    return ColdClock(clock, overwriting(device)) if cold else clock


def overwriting(device: torch.device) -> Callable[[], None]:
    """Writes more than the last level of caches holds, and waits for it."""
    if device.type == "cuda":
        buffer = torch.empty(FLUSHED_ON_GPU, dtype=torch.uint8, device=device)

        def overwrite() -> None:
            buffer.fill_(1)
            torch.cuda.synchronize(device)

        return overwrite
    words = torch.zeros(2 * last_level_cache() // 8, dtype=torch.int64)
    return lambda: words.add_(1)  # a plain store of so much may go around the caches


def last_level_cache(told: Path = CACHES) -> int:
    """Bytes of the CPU's largest cache."""
    sizes = [file.read_text().strip() for file in told.glob("index*/size")]
    units = {"K": 1 << 10, "M": 1 << 20}
    return max((int(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units), default=CACHE_IF_UNTOLD)
