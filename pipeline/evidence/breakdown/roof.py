"""What the machine can do at best, measured beside what is held against it.

The fastest of several calls counts: whatever disturbs a limit makes it slower.
"""

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

import torch

from pipeline.engine.arms.graph import GraphStageArm
from pipeline.evidence.costs import Roof
from pipeline.evidence.timing.clock import Clock, clock_for

SECONDS = 0.1  # for each of the limits, after its first call
LEAST_CALLS = 3
COPIED = {"cpu": 128 << 20, "cuda": 512 << 20}  # bytes, more than any cache holds
SIDE = {"cpu": 1024, "cuda": 8192}  # of the square matrices


def measured_roof(device: torch.device, dtype: torch.dtype, graphs: bool) -> Roof:
    """`graphs`: some steps are CUDA graphs."""
    busy = partial(clock_for(device), ahead=True)
    return Roof(
        copy_bytes_per_second=_copy(busy, device),
        matrix_flops_per_second=_product(busy, device, dtype),
        launch=_launch(clock_for(device), device),
        fp8_flops_per_second=_fp8_product(busy, device),
        graph_launch=_graph_launch(clock_for(device), device) if graphs else None,
    )


def _copy(clock: Clock, device: torch.device) -> float:
    """Read plus write."""
    source = torch.ones(COPIED[device.type], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / _fastest(clock, lambda: target.copy_(source))


def _product(clock: Clock, device: torch.device, dtype: torch.dtype) -> float:
    """Of random numbers: zeros may be faster than data."""
    side = SIDE[device.type]
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    return 2 * side**3 / _fastest(clock, lambda: left @ right)


def _fp8_product(clock: Clock, device: torch.device) -> float | None:
    """None where there are no fp8 matrix units."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 9):
        return None
    side = SIDE[device.type]
    left, right = (torch.randn(side, side, device=device).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device=device)
    call = lambda: torch._scaled_mm(left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)  # noqa: E731
    return 2 * side**3 / _fastest(clock, call)


def _launch(clock: Clock, device: torch.device) -> float:
    """Seconds of the least that a stage can do: one kernel on a single number."""
    number = torch.zeros(1, device=device)
    return _fastest(clock, lambda: number.fill_(1.0))


def _graph_launch(clock: Clock, device: torch.device) -> float:
    number = torch.zeros(1, device=device)
    arm = GraphStageArm("empty", number.fill_, [[(1.0,)]])
    arm.prepare(0)
    return _fastest(clock, lambda: arm.step(0)) / arm.repeats


def _fastest(clock: Clock, call: Callable[[], Any]) -> float:
    clock(call)
    taken, started = [], monotonic()
    while len(taken) < LEAST_CALLS or monotonic() - started < SECONDS:
        seconds, _ = clock(call)
        taken.append(seconds)
    return min(taken)
