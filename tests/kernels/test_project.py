import pytest
import torch

from kernels.project.eager import Project as Eager
from kernels.project.fp8 import Project as Fp8
from kernels.project.reference import Project as Reference


@pytest.mark.parametrize("project", [Eager(), Reference()], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_equals_the_product_in_float64(project, dtype):
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(*shape, generator=generator).to(dtype) for shape in ((5, 48), (7, 48)))
    torch.testing.assert_close(project(x, project.prepared(weight)), (x.double() @ weight.double().T).to(dtype))


def test_weights_as_a_checkpoint_has_them_are_kept_exactly():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(256, 384, generator=generator).mul(100).to(torch.float8_e4m3fn)
    values[::128, ::128] = 448  # so that no smaller scale would do
    scales = torch.exp2(torch.arange(-4.0, 2.0)).view(2, 3)
    spread = scales.repeat_interleave(128, 0).repeat_interleave(128, 1)
    held = Fp8().prepared((values.float() * spread).bfloat16())
    assert torch.equal(held.scales, scales)
    assert torch.equal(held.values.float(), values.float())


def test_a_zero_block_stays_zero():
    held = Fp8().prepared(torch.zeros(128, 128))
    assert held.values.float().abs().max() == 0 and held.scales.isfinite().all()
