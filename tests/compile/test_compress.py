import pytest
from compiling import build, with_ones

from kernels.compress.fused import compress_kernel, finish_kernel

STEP = {"p_positions": "*i32:16", "p_valid": "*i1:16", "p_slots": "*i64:16", "p_cos": "*fp32:16", "p_sin": "*fp32:16"}
STATE = {"p_request": "*i32:16", "p_state_slots": "*i64:16", "p_state_table": "*i32:16", "stride_table": "i32"}
MAIN, INDEX, HCA = (512, 448, 64, 37440), (128, 0, 64, 8640), (512, 448, 2, 1728)
WHOLE = {"CHANNELS": (512, 128), "ROWS": (8, 8), "SPLITS": 1, "CHUNK": 1, "STORED": 1}
SPLIT = {"CHANNELS": (64,), "ROWS": (64,), "SPLITS": 8, "CHUNK": 128, "STORED": 4}


def arguments(streams: int, norm: str = "fp32", cache: str = "u8") -> dict:
    inputs = ("*fp32:16", "*fp32:16", "i32:16", "i32:16", "*fp32:16", "*fp32:16")
    return {"streams": ((inputs, (f"*{norm}:16", f"*{cache}:16", "*fp32:16")),) * streams} | STEP | {"eps": "fp32"}


def pooling(streams: int, norm: str = "fp32", cache: str = "u8") -> dict:
    return arguments(streams, norm, cache) | STATE | {"tokens": "i32", "pools": "i32"}


def layout(ratio: int, *streams: tuple[int, int, int, int]) -> dict:
    shapes = zip(("WIDTHS", "NOPES", "PAGE_SIZES", "PAGE_STRIDES"), zip(*streams, strict=True), strict=True)
    return dict(shapes) | {"RATIO": ratio, "ROTATED": 64, "OVERLAP": False}


def constants(ratio: int, windows: int, *streams: tuple[int, int, int, int], **tile: object) -> dict:
    geometry = {"STATE_PAGE_SIZE": min(ratio, 8), "WINDOWS": (windows,) * len(streams)}
    tile = {name: value[: len(streams)] if isinstance(value, tuple) else value for name, value in tile.items()}
    return layout(ratio, *streams) | geometry | tile


def test_every_integer_may_be_1():
    for changed in (pooling(2), *with_ones(pooling(2))):
        assert build(compress_kernel, changed, constants(4, 2, MAIN, INDEX, **WHOLE)).spilled == 0


@pytest.mark.parametrize("tile", [WHOLE | {"CHUNK": 4, "STORED": 4}, WHOLE | {"ROWS": (4, 8)}], ids=repr)
def test_ratio_4(tile):
    assert build(compress_kernel, pooling(2, "bf16"), constants(4, 2, MAIN, INDEX, **tile)).spilled == 0


@pytest.mark.parametrize("tile", [SPLIT, SPLIT | {"CHUNK": 1, "STORED": 1}], ids=repr)
def test_ratio_128(tile):
    assert build(compress_kernel, pooling(1, "bf16"), constants(128, 1, HCA, **tile)).spilled == 0


def test_finish():
    for streams in ((HCA,), (MAIN, INDEX)):
        assert build(finish_kernel, arguments(len(streams)), layout(128, *streams)).spilled == 0


def test_without_quantisation():
    plain = (512, 0, 1, 512)
    assert build(compress_kernel, pooling(1, "fp32", "fp32"), constants(1, 1, plain, **WHOLE)).spilled == 0
    assert build(compress_kernel, pooling(1, "fp32", "bf16"), constants(4, 2, plain, **WHOLE)).spilled == 0


def test_other_targets():
    build(compress_kernel, pooling(2), constants(4, 2, MAIN, INDEX, **WHOLE), "sm_100")
    build(compress_kernel, pooling(1, "fp32", "bf16"), constants(4, 2, (512, 0, 64, 64 * 512), **WHOLE), "gfx942")
