import re

import pytest
from compiling import build, with_ones

from kernels.compress.single import tokens_kernel
from kernels.compress.whole import windows_kernel

STEP = {"p_positions": "*i32:16", "p_valid": "*i1:16", "p_slots": "*i64:16", "p_cos": "*fp32:16", "p_sin": "*fp32:16"}
STEP |= {"eps": "fp32", "tokens": "i32"}
STEP |= {"p_request": "*i32:16", "p_state_slots": "*i64:16", "p_state_table": "*i32:16", "stride_table": "i32"}
MAIN, INDEX, HCA = (512, 448, 64, 37440), (128, 0, 64, 8640), (512, 448, 2, 1728)
KERNELS = [tokens_kernel, windows_kernel]
ALL = {"CHANNELS": (512, 128), "ROWS": (8, 8), "SPLITS": 1}
SPLIT = {"CHANNELS": (32,), "ROWS": (128,), "SPLITS": 16}


def arguments(streams: int, norm: str = "fp32", cache: str = "u8", split: bool = False) -> dict:
    inputs = ("*fp32:16", "*fp32:16", "i32:16", "i32:16", "*fp32:16", "*fp32:16")
    outputs = (f"*{norm}:16", f"*{cache}:16", ("*fp32:16", "*i32:16") if split else None)
    return {"streams": ((inputs, outputs),) * streams} | STEP


def constants(ratio: int, windows: int, *streams: tuple[int, int, int, int], **tile: object) -> dict:
    shapes = zip(("WIDTHS", "NOPES", "PAGE_SIZES", "PAGE_STRIDES"), zip(*streams, strict=True), strict=True)
    geometry = {"RATIO": ratio, "ROTATED": 64, "STATE_PAGE_SIZE": min(ratio, 8), "WINDOWS": (windows,) * len(streams)}
    tile = {name: value[: len(streams)] if isinstance(value, tuple) else value for name, value in tile.items()}
    return dict(shapes) | geometry | tile | {"OVERLAP": False}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_every_integer_may_be_1(kernel):
    for changed in (arguments(1), *with_ones(arguments(1))):
        assert build(kernel, changed, constants(4, 2, MAIN, **ALL), num_warps=4).spilled == 0


def test_single_tokens():
    for warps in (2, 4, 8):
        known = constants(4, 2, MAIN, INDEX, **ALL)
        assert build(tokens_kernel, arguments(2), known, num_warps=warps).spilled == 0
        given, known = arguments(1, "bf16", "u8", True), constants(128, 1, HCA, **SPLIT)
        assert build(tokens_kernel, given, known, num_warps=warps).spilled == 0


def test_whole_windows():
    for stream, channels, warps in ((MAIN, 512, 4), (INDEX, 128, 1)):
        tile = {"CHANNELS": (channels,), "ROWS": (4,), "SPLITS": 1}
        assert build(windows_kernel, arguments(1), constants(4, 2, stream, **tile), num_warps=warps).spilled == 0
    for channels, warps in ((32, 4), (64, 8)):
        tile = {"CHANNELS": (channels,), "ROWS": (128,), "SPLITS": 512 // channels}
        given = arguments(1, "bf16", "u8", True)
        assert build(windows_kernel, given, constants(128, 1, HCA, **tile), num_warps=warps).spilled == 0


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_pieces_are_stored_before_the_ticket_is_drawn_and_read_past_l1(kernel):
    text = build(kernel, arguments(1, "fp32", "u8", True), constants(128, 1, HCA, **SPLIT), num_warps=4).text
    before, *after = text.split("atom.global.gpu.acq_rel.add.u32")
    assert len(after) == {tokens_kernel: 1, windows_kernel: 2}[kernel]
    for behind in after:
        assert "bar.sync" in before.rpartition("st.global")[2]
        assert re.search(r"ld\.(volatile\.)?global\S*", behind).group() == "ld.global.cg.v4.b32"
        before = behind
    assert text.count("ld.global.cg") == text.count("ld.volatile.global") == len(after)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_nothing_is_touched_before_the_launch_before_has_ended(kernel):
    known = constants(128, 1, HCA, **SPLIT) | {"OVERLAP": True}
    text = build(kernel, arguments(1, "fp32", "u8", True), known, num_warps=4).text
    assert 0 < text.index("griddepcontrol.wait") < re.search(r"\b(ld|st|atom)\.\S*global", text).start()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_without_quantisation(kernel):
    plain = (512, 0, 1, 512)
    assert build(kernel, arguments(1, "fp32", "fp32"), constants(1, 1, plain, **ALL)).spilled == 0
    assert build(kernel, arguments(1, "fp32", "bf16"), constants(4, 2, plain, **ALL)).spilled == 0


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_other_targets(kernel):
    plain = (512, 0, 2, 1024)
    build(kernel, arguments(2), constants(4, 2, MAIN, INDEX, **ALL), "sm_100")
    build(kernel, arguments(1, "fp32", "bf16"), constants(4, 2, plain, **ALL), "gfx942")
    build(kernel, arguments(1, "fp32", "u8", True), constants(128, 1, HCA, **SPLIT), "sm_100")
    build(kernel, arguments(1, "fp32", "bf16", True), constants(128, 1, plain, **SPLIT), "gfx942")
