"""A stage that waits after its work, for as long as it is told: a difference of known size between two arms."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

CYCLES_AT_LEAST = 40_000  # about 20 us: what the device prepares meanwhile is done before even the shortest ends


@dataclass(frozen=True)
class Delayed:
    stage: Callable[..., Any]
    wait: Callable[[], None]

    def __call__(self, *arguments: Any) -> Any:
        result = self.stage(*arguments)
        self.wait()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)


@dataclass(frozen=True)
class CpuWait:
    """Busy until a deadline."""

    seconds: float

    def __call__(self) -> None:
        end = perf_counter() + self.seconds
        while perf_counter() < end:
            pass


@dataclass(frozen=True)
class CudaWait:
    """One thread of a kernel spins until so many cycles of its multiprocessor are over. A graph can hold it."""

    cycles: int

    def __call__(self) -> None:
        torch.cuda._sleep(self.cycles)


def waiting(seconds: float, cycles_per_second: float | None) -> CpuWait | CudaWait:
    """A wait that lasts `seconds` longer than waiting(0).

    On a GPU that one is a kernel too, so that what an additional kernel costs is in no difference.
    """
    if cycles_per_second is None:
        return CpuWait(seconds)
    return CudaWait(CYCLES_AT_LEAST + round(seconds * cycles_per_second))
