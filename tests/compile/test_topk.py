import pytest
from compiling import build, with_ones

from kernels.select.topk_radix import LONG, _choose

POINTERS = {"p_scores": "*fp32:16", "p_visible": "*i32:16", "p_candidates": "*i32:16", "p_chosen": "*i32:16"}
ARGUMENTS = POINTERS | {"p_between": "*i32:16", "stride": "i32:16", "size": "i32:16", "width": "i32", "topk": "i32"}


def constants(block: int, warps: int, first: bool = True, vector: int = 4) -> dict:
    finish = 64 if block > LONG else 32
    return {"FIRST": first, "VECTOR": vector, "BLOCK": block, "THREADS": 32 * warps, "FINISH": finish, "OVERLAP": False}


@pytest.mark.parametrize(("block", "warps"), [(1024, 4), (2048, 2), (2048, 4), (8192, 4), (8192, 8), (16384, 16)])
@pytest.mark.parametrize("first", [True, False])
def test_no_spills(block, warps, first):
    assert build(_choose, ARGUMENTS, constants(block, warps, first), num_warps=warps).spilled == 0


@pytest.mark.parametrize(
    ("block", "warps", "first"),
    [(32768, 32, True), *((*size, first) for size in ((8192, 4), (8192, 8)) for first in (True, False))],
)
def test_no_spills_in_long_rows_and_their_chunks(block, warps, first):
    assert build(_choose, ARGUMENTS, constants(block, warps, first) | {"FINISH": 64}, num_warps=warps).spilled == 0


def test_every_integer_may_be_1():
    for changed in with_ones(ARGUMENTS):
        build(_choose, changed, constants(512, 1, vector=1), num_warps=1)


def test_scores_move_16_bytes_at_a_time():
    assert "ld.global.v4.b32" in build(_choose, ARGUMENTS, constants(8192, 16), num_warps=16).text


@pytest.mark.parametrize("target", ["sm_100", "gfx942"])
def test_other_targets(target):
    build(_choose, ARGUMENTS, constants(1024, 2), target, num_warps=2)


def test_waits_for_the_launch_before():
    assert "griddepcontrol.wait" in build(_choose, ARGUMENTS, constants(1024, 4) | {"OVERLAP": True}, num_warps=4).text
