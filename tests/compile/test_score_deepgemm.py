import pytest
from compiling import build, with_ones

from kernels.select.score_deepgemm import _fill, _gather, _places

ROWS = {"p_positions": "*i32:16", "p_request": "*i32:16", "p_valid": "*i1:16"}
PLACES = ROWS | {"p_table": "*i32:16", "p_lengths": "*i32:16", "p_own_table": "*i32:16"}
PLACES |= {"columns": "i32", "stride": "i32"}
GATHER = {"p_bytes": "*u8:16", "p_floats": "*fp32:16", "p_table": "*i32:16", "p_keys": "*u8:16"}
GATHER |= {"p_scales": "*fp32:16", "stride": "i32"}
FILL = {"p_scores": "*fp32:16", "p_positions": "*i32:16", "p_valid": "*i1:16", "stride": "i32:16", "width": "i32"}
KERNELS = {
    "places": (_places, PLACES, {"RATIO": 4, "BLOCK": 256}),
    "gather": (_gather, GATHER, {"PAGE_BYTES": 8640, "X": 128, "PAGE": 64}),
    "fill": (_fill, FILL, {"RATIO": 4, "BLOCK": 1024}),
}


@pytest.mark.parametrize("name", KERNELS)
def test_no_spills_whatever_is_one(name):
    kernel, arguments, constants = KERNELS[name]
    for changed in with_ones(arguments):
        assert build(kernel, changed, constants).spilled == 0
