import pytest
from compiling import build, with_ones

from kernels.project.fp8 import quantise_kernel

ARGUMENTS = {
    "p_x": "*bf16:16",
    "p_values": "*u8:16",
    "p_scales": "*fp32:16",
    "tokens": "i32",
    "stride_x": "i32:16",
    "stride_scales": "i32",
}


def constants(groups: int) -> dict[str, int]:
    return {"GROUPS": groups, "BLOCK_GROUPS": 8, "CHANNELS": 128, "OVERLAP": False}


@pytest.mark.parametrize("groups", [8, 12, 32, 128])
def test_no_spills(groups):
    made = build(quantise_kernel, ARGUMENTS, constants(groups), num_warps=4)
    assert made.spilled == 0 and "ld.global.v4.b32" in made.text


def test_sm_100():
    build(quantise_kernel, ARGUMENTS, constants(32), "sm_100", num_warps=4)


def test_integers_equal_to_one():
    for arguments in with_ones(ARGUMENTS):
        build(quantise_kernel, arguments, constants(1), num_warps=4)
