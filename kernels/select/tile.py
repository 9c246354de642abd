"""What a mapping of entries to slots is launched with, by the size of the step (docs/kernels/locate.md)."""

from functools import cache

import torch

MANY_ROWS = 2048
VERY_MANY_ROWS = 8192


def shape_of(tokens: int, scored: bool, rows: int | None, warps: int | None) -> tuple[int, int]:
    """Rows and warps of a program; None is chosen. A row that is not scored moves half the bytes."""
    if rows is None:
        rows = 1 if tokens <= MANY_ROWS else 2 if scored or tokens <= VERY_MANY_ROWS else 4
    return rows, warps or (4 if rows < 4 else 2)


def hints(keep_slots: bool | None, entries: int, device: torch.device) -> dict[str, str]:
    """Slots kept in L2 rather than the entries they come from; None: where both, 4 bytes each, do not fit."""
    if keep_slots is None:
        keep_slots = 8 * entries > _l2_bytes(device)
    return {"LOAD": "evict_first", "STORE": "evict_last"} if keep_slots else {"LOAD": "", "STORE": ""}


def can_overlap(overlap: bool | None, device: torch.device) -> bool:
    return _has_dependent_launches(device) if overlap is None else overlap


@cache
def _has_dependent_launches(device: torch.device) -> bool:
    return device.type == "cuda" and not torch.version.hip and torch.cuda.get_device_capability(device) >= (9, 0)


@cache
def _l2_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return 1 << 62
    return torch.cuda.get_device_properties(device).L2_cache_size
