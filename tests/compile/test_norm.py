import pytest
from compiling import build, with_ones

from kernels.norm.fused import norm_kernel

ARGUMENTS = {"p_x": "*bf16:16", "p_out": "*bf16:16", "p_weight": "*fp32:16", "stride_x": "i32:16", "eps": "fp32"}


def constants(width: int) -> dict[str, int]:
    return {"WIDTH": width, "BLOCK": 1 << (width - 1).bit_length(), "OVERLAP": False}


@pytest.mark.parametrize("width", [1, 1024, 1536])
def test_no_spills(width):
    assert build(norm_kernel, ARGUMENTS, constants(width), num_warps=4).spilled == 0


@pytest.mark.parametrize("target", ["sm_100", "gfx942"])
def test_other_targets(target):
    build(norm_kernel, ARGUMENTS, constants(1536), target, num_warps=4)


def test_a_stride_of_one():
    for arguments in with_ones(ARGUMENTS):
        build(norm_kernel, arguments, constants(1), num_warps=1)
