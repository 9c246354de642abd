"""How long a call takes until its result is there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter_ns
from typing import Protocol, TypeVar

import torch

Result = TypeVar("Result")


class Clock(Protocol):
    def __call__(self, call: Callable[[], Result]) -> tuple[float, Result]:
        """Seconds and what the call returned."""


@dataclass(frozen=True)
class CpuClock:
    def __call__(self, call: Callable[[], Result]) -> tuple[float, Result]:
        start = perf_counter_ns()
        result = call()
        return (perf_counter_ns() - start) * 1e-9, result


@dataclass(frozen=True)
class CudaClock:
    """From the moment an idle GPU could begin to the end of the last kernel, launches on the way included."""

    device: torch.device

    def __call__(self, call: Callable[[], Result]) -> tuple[float, Result]:
        with torch.cuda.device(self.device):
            start, end = self._events
            torch.cuda.synchronize()
            start.record()
            result = call()
            end.record()
            end.synchronize()
        return start.elapsed_time(end) * 1e-3, result

    @cached_property
    def _events(self) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        """Recorded once, for CUDA makes an event when it is first recorded, and that is not to be timed."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        end.record()
        return start, end


def clock_for(device: torch.device) -> Clock:
    return CudaClock(device) if device.type == "cuda" else CpuClock()
