"""What is read beside the clock in all cases of a run: the machine, and what is compiled."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from pipeline.evidence.summary import Summary
from pipeline.evidence.timing.compiles import Compiling
from pipeline.evidence.timing.watch import Watch, watch


@dataclass
class Instruments:
    """By default the CPU is watched and nothing else."""

    watch: Watch = field(default_factory=Watch)
    compiling: Compiling = field(default_factory=Compiling)
    left_out: list[str] = field(default_factory=list)  # of what was asked for

    def added(self, summary: Summary) -> Summary:
        """The same summary with what was read."""
        compiles = self.compiling.found(summary.cases, summary.baseline)
        machine, left_out = self.watch.machine(), tuple(self.left_out)
        return replace(
            summary, findings=replace(summary.findings, machine=machine, compiles=compiles, left_out=left_out)
        )


@contextmanager
def instruments(device: torch.device, compile_anew: bool) -> Iterator[Instruments]:
    """For this device. `compile_anew`: nothing comes from Triton's cache on disk."""
    compiling = Compiling()
    held = Instruments(watch(device, faults=[compiling.since_edge]), compiling)
    if device.type != "cuda":
        yield held
        return
    with compiling.listening(compile_anew):
        yield held
