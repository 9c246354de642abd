import pytest
from compiling import build, with_ones

from kernels.attend.flashmla import _mask

POINTERS = ("p_slots", "p_other_slots", "p_lengths", "p_other_lengths", "p_out", "p_other_out")
SIZES = ("stride", "other_stride", "width", "other_width", "size", "other_size")
ARGUMENTS = dict.fromkeys(POINTERS, "*i32:16") | dict.fromkeys(SIZES, "i32")


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_no_spills_whatever_is_one(target):
    for changed in with_ones(ARGUMENTS):
        assert not build(_mask, changed, {"BLOCK": 512}, target).spilled
