import pytest
import torch
from near import assert_one_rounding_apart

from kernels.norm.fused import Norm
from kernels.norm.reference import Norm as Reference


@pytest.mark.parametrize("norm", [Norm(), Norm(num_warps=1), Norm(overlap=True)], ids=repr)
@pytest.mark.parametrize("tokens", [1, 3, 64, 4096])
@pytest.mark.parametrize("width", [1024, 1536])
def test_equals_reference_on_rows_that_lie_apart(norm, tokens, width):
    generator = torch.Generator("cuda").manual_seed(tokens)
    x = torch.randn(tokens, width + 512, generator=generator, device="cuda").bfloat16()[:, :width]
    weight = 1 + 0.1 * torch.randn(width, generator=generator, device="cuda")
    assert_one_rounding_apart(norm(x, weight, 1e-6), Reference()(x, weight, 1e-6))
