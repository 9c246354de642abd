import pytest
from compiling import build

from kernels.emit.fused import unturn_kernel

ARGUMENTS = {"p_o": "*bf16:16", "p_out": "*bf16:16", "p_cos": "*fp32:16", "p_sin": "*fp32:16", "p_positions": "*i32:16"}


def constants(heads: int, block_heads: int) -> dict[str, int]:
    blocks = {"BLOCK_HEADS": block_heads, "BLOCK_WIDTH": 512, "PARTS": -(-heads // block_heads), "OVERLAP": False}
    return {"HEADS": heads, "WIDTH": 512, "ROTATED": 64, **blocks}


@pytest.mark.parametrize(("heads", "block_heads", "num_warps"), [(1, 1, 1), (8, 4, 1), (64, 8, 1), (128, 16, 4)])
def test_no_spills(heads, block_heads, num_warps):
    assert build(unturn_kernel, ARGUMENTS, constants(heads, block_heads), num_warps=num_warps).spilled == 0


@pytest.mark.parametrize("target", ["sm_100", "gfx942"])
def test_other_targets(target):
    build(unturn_kernel, ARGUMENTS, constants(64, 4), target, num_warps=1)


def test_rows_move_16_bytes_at_a_time_and_stay_in_registers():
    made = build(unturn_kernel, ARGUMENTS, constants(64, 4), num_warps=1)
    assert "ld.global.v4.b32" in made.text and "st.global.v4.b32" in made.text
    assert made.shared == 0


def test_overlapping_launches_wait_before_they_read():
    text = build(unturn_kernel, ARGUMENTS, constants(64, 4) | {"OVERLAP": True}, num_warps=1).text
    assert 0 < text.index("griddepcontrol.wait") < text.index("ld.global")
