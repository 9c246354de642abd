import pytest
from compiling import build, with_ones

from kernels.select.query_fused import _prepare
from kernels.select.score_paged import _score

ROWS = {"p_positions": "*i32:16", "p_request": "*i32:16", "p_valid": "*i1:16"}
SIZES = {"count": "i32", "width": "i32", "score_stride": "i32:16", "table_stride": "i32"}
CACHE = {"HEADS": 64, "X": 128, "CHANNELS": 128, "PAGE": 64, "PAGE_STRIDE": 8640, "SCALED": True}
GEOMETRY = {"RATIO": 4, "SKIP": 0, "FILL": True, "OVERLAP": False} | CACHE
TURN = {"p_cos": "*fp32:16", "p_sin": "*fp32:16", "p_positions": "*i32:16", "p_valid": "*i1:16"}
STRIDES = {"stride_row": "i32:16", "stride_head": "i32:16", "stride_weights": "i32:16", "factor": "fp32"}
QUERY = {"RATIO": 4, "SKIP": 0, "I": 64, "X": 128, "ROTATED": 64, "HEADS": 64, "CHANNELS": 128} | {
    "BLOCK_H": 16,
    "OVERLAP": False,
}


def arguments(values: str = "fp8e4nv") -> dict[str, str]:
    query = {"p_values": f"*{values}:16", "p_weights": "*fp32:16"}
    keys = {"p_keys": f"*{values}:16", "p_scales": "*fp32:16", "p_table": "*i32:16"}
    return query | keys | ROWS | {"p_scores": "*fp32:16"} | SIZES


def query_arguments(values: str = "u8") -> dict[str, str]:
    given = {"p_q": "*bf16:16", "p_weights": "*bf16:16"}
    return given | TURN | {"p_values": f"*{values}:16", "p_scaled": "*fp32:16"} | STRIDES


def constants(rows: int, entries: int = 64, stages: int = 5, **changed) -> dict:
    return GEOMETRY | {"BLOCK_Q": rows, "BLOCK_N": entries, "STAGES": stages} | changed


@pytest.mark.parametrize(("rows", "entries", "warps"), [(1, 64, 4), (2, 64, 4), (4, 64, 4), (2, 128, 4), (4, 128, 8)])
def test_no_spills_and_e4m3_tensor_cores(rows, entries, warps):
    made = build(_score, arguments(), constants(rows, entries), num_warps=warps)
    assert made.spilled == 0
    assert "wgmma.mma_async.sync.aligned.m64" in made.text and "f32.e4m3.e4m3" in made.text


@pytest.mark.parametrize(
    "changed", [{"PAGE": 1}, {"PAGE": 96}, {"X": 100, "PAGE_STRIDE": 6912}, {"SKIP": 512}], ids=repr
)
def test_other_geometries(changed):
    assert build(_score, arguments(), constants(2, **changed)).spilled == 0


def test_plain_caches():
    plain = {"SCALED": False, "PAGE_STRIDE": 64 * 128}
    assert build(_score, arguments("bf16"), constants(2, **plain)).spilled == 0
    build(_score, arguments("fp32"), constants(1, 16, 2, HEADS=16, X=32, CHANNELS=32, SCALED=False, PAGE_STRIDE=2048))


def test_every_integer_may_be_1():
    for changed in with_ones(arguments()):
        assert build(_score, changed, constants(1)).spilled == 0
    for changed in with_ones(query_arguments()):
        assert build(_prepare, changed, QUERY).spilled == 0


def test_the_query_moves_16_bytes_at_a_time():
    made = build(_prepare, query_arguments(), QUERY, enable_fp_fusion=False)
    assert made.spilled == 0 and "ld.global.v4.b32" in made.text
    assert build(_prepare, query_arguments("bf16"), QUERY).spilled == 0


def test_other_targets():
    build(_score, arguments(), constants(2), "sm_100")
    build(_prepare, query_arguments(), QUERY, "sm_100")
    build(_score, arguments("bf16"), constants(2, stages=2, SCALED=False, PAGE_STRIDE=64 * 128), "gfx942")
    build(_prepare, query_arguments("bf16"), QUERY, "gfx942")
