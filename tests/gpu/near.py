"""How close a kernel must come where the order of its float32 sums differs from the reference's."""

import torch
from torch import Tensor

from kernels.layouts import Cache

E4M3_STEP = 2.0**-3


def assert_one_rounding_apart(actual: Tensor, expected: Tensor) -> None:
    """bf16 values that differ by one step at most, and seldom do."""
    assert actual.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(actual, expected, rtol=2.0**-7, atol=1e-6)
    assert (actual != expected).float().mean() < 1e-3


def assert_same_rows(actual: Cache, expected: Cache) -> None:
    """The same bytes but for roundings that went the other way: seldom, and by one step."""
    same = actual.data.view(torch.uint8) == expected.data.view(torch.uint8)
    assert (~same).float().mean() < 1e-3
    slots = torch.arange(expected.data.shape[0] * expected.page_size, device=expected.data.device)
    actual_rows, expected_rows = actual.gather(slots), expected.gather(slots)
    assert torch.equal(actual_rows.isnan(), expected_rows.isnan())
    torch.testing.assert_close(actual_rows, expected_rows, rtol=E4M3_STEP, atol=1e-3, equal_nan=True)
