import pytest
import torch

from kernels.norm.reference import Norm


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_equals_the_formula_in_float64_on_rows_that_lie_apart(dtype):
    x = torch.randn(5, 40, generator=torch.Generator().manual_seed(0)).to(dtype)[:, 3:35]
    weight = torch.linspace(0.5, 1.5, 32)
    exact = x.double() / (x.double().square().mean(1, keepdim=True) + 1e-2).sqrt() * weight.double()
    torch.testing.assert_close(Norm()(x, weight, 1e-2), exact.to(dtype))
