"""A cold L2 cache of a GPU."""

from collections.abc import Callable

import torch
from torch import Tensor

LEAST_READ = 128 << 20  # bytes


def reading(device: torch.device) -> Callable[[], Tensor]:
    """Reads more than the L2 cache holds; what was written would be on its way to memory while the next kernel runs."""
    held = torch.cuda.get_device_properties(device).L2_cache_size
    return torch.ones(max(LEAST_READ, 3 * held) // 4, device=device).sum
