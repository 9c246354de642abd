import pytest
from compiling import build, with_ones

from kernels.ingest.fused import ingest_kernel

STRIDES = {"stride_q_token": "i32:16", "stride_q_head": "i32:16", "stride_kv": "i32:16"}
ROWS = {"p_cos": "*fp32:16", "p_sin": "*fp32:16", "p_positions": "*i32:16", "p_valid": "*i1:16", "p_slots": "*i64:16"}
FP8 = {"NOPE": 448, "PAGE_SIZE": 64, "PAGE_STRIDE": 37440}
PLAIN = {"NOPE": 0, "PAGE_SIZE": 64, "PAGE_STRIDE": 64 * 512}


def arguments(data: str, cache: str) -> dict[str, str]:
    tensors = dict.fromkeys(("p_q", "p_out", "p_kv"), f"*{data}:16") | {"p_norm": f"*{data}:16"}
    return tensors | ROWS | {"p_cache": f"*{cache}:16"} | STRIDES | {"eps": "fp32"}


def constants(heads: int, block_heads: int, **layout: int) -> dict[str, int]:
    blocks = {"BLOCK_HEADS": block_heads, "BLOCK_WIDTH": 512, "PARTS": -(-heads // block_heads) + 1, "OVERLAP": False}
    return {"HEADS": heads, "WIDTH": 512, "ROTATED": 64, **layout, **blocks}


@pytest.mark.parametrize(("data", "cache", "layout"), [("bf16", "u8", FP8), ("bf16", "bf16", PLAIN)])
def test_every_integer_may_be_1(data, cache, layout):
    kinds = arguments(data, cache)
    for changed in (kinds, *with_ones(kinds)):
        assert build(ingest_kernel, changed, constants(64, 4, **layout), num_warps=1).spilled == 0


@pytest.mark.parametrize(("heads", "block_heads", "num_warps"), [(1, 1, 1), (8, 8, 1), (8, 8, 4), (128, 16, 4)])
def test_head_counts(heads, block_heads, num_warps):
    made = build(ingest_kernel, arguments("bf16", "u8"), constants(heads, block_heads, **FP8), num_warps=num_warps)
    assert made.spilled == 0


def test_fp32_without_quantisation():
    assert build(ingest_kernel, arguments("fp32", "fp32"), constants(64, 4, **PLAIN), num_warps=1).spilled == 0


def test_other_targets():
    build(ingest_kernel, arguments("bf16", "u8"), constants(64, 4, **FP8), "sm_100", num_warps=1)
    build(ingest_kernel, arguments("bf16", "bf16"), constants(64, 4, **PLAIN), "gfx942", num_warps=1)
