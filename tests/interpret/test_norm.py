import pytest
import torch

from kernels.norm.fused import Norm
from kernels.norm.reference import Norm as Reference


@pytest.mark.parametrize("tokens", [0, 1, 3])
@pytest.mark.parametrize("width", [1, 24, 32])
def test_equals_reference_on_rows_that_lie_apart(tokens, width):
    x = torch.randn(tokens, width + 9, generator=torch.Generator().manual_seed(width))[:, 4 : 4 + width]
    weight = torch.linspace(0.5, 1.5, width)
    torch.testing.assert_close(Norm()(x, weight, 1e-3), Reference()(x, weight, 1e-3))
