import pytest
from compiling import build, with_ones

from kernels.cover.fused import cover_kernel

ARGUMENTS = {"p_slots": "*i32:16", "p_lengths": "*i32:16", "p_positions": "*i32:16", "p_request": "*i32:16"}
ARGUMENTS |= {"p_valid": "*i1:16", "p_table": "*i32:16"}
ARGUMENTS |= {"tokens": "i32", "width": "i32:16", "stride_slots": "i32:16", "stride_table": "i32"}
CONSTANTS = {"RATIO": 128, "PAGE_SIZE": 2, "ROWS": 1, "BLOCK": 1024}


def test_every_integer_may_be_1():
    for changed in (ARGUMENTS, *with_ones(ARGUMENTS)):
        assert build(cover_kernel, changed, CONSTANTS).spilled == 0


@pytest.mark.parametrize("target", ["sm_100", "gfx942"])
def test_other_targets(target):
    build(cover_kernel, ARGUMENTS, CONSTANTS, target)


@pytest.mark.parametrize("page_size", [1, 2])
def test_rows_are_written_16_bytes_at_a_time_without_a_division(page_size):
    text = build(cover_kernel, ARGUMENTS, CONSTANTS | {"PAGE_SIZE": page_size}).text
    assert "st.global.v4.b32" in text and "div." not in text
