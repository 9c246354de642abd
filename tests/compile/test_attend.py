import pytest
from compiling import build, with_ones

from kernels.attend import decode_split, hopper_heads, hopper_keys
from kernels.attend.parts import combine

INTEGERS = dict.fromkeys(("T", "H", "splits"), "i32")
ENDS = {"p_q": "*bf16:16", "p_out": "*fp32:16", "p_lse": "*fp32:16", "p_sink": "*fp32:16", "scale": "fp32"}


def split_arguments(cache: str) -> dict:
    tables = {"p_caches": (cache, cache), "p_slots": ("*i32:16", "*i32:16"), "p_lengths": ("*i32:16", "*i32:16")}
    return ENDS | tables | {"widths": ("fp32", "fp32"), "strides": ("fp32", "fp32")} | INTEGERS


def split_constants(fp8: bool, nope: int = 448, page_size: int = 64) -> dict:
    main, rope = (nope, 64) if fp8 else (nope + 64, 0)
    stride = 576 * 65 if fp8 else page_size * 512
    blocks = {"BLOCK_A": 512 if nope == 448 else 128 - 64 * fp8, "BLOCK_B": 64 if fp8 else 16, "BLOCK_H": 16}
    geometry = {"FP8": (fp8, fp8), "PAGES": (page_size, page_size), "STRIDES": (stride, stride), "A": main, "B": rope}
    return geometry | blocks | {"BLOCK_N": 32, "SINK": True, "SPLIT": True, "PRECISION": "tf32"}


@pytest.mark.parametrize("fp8", [True, False])
def test_decode_split(fp8):
    arguments = split_arguments("*u8:16" if fp8 else "*bf16:16")
    made = build(decode_split._attend, arguments, split_constants(fp8), num_warps=4, num_stages=2)
    assert made.spilled == 0 and "cp.async" in made.text


def test_decode_split_with_every_integer_1():
    arguments = split_arguments("*u8:16")
    for changed in with_ones(arguments):
        assert build(decode_split._attend, changed, split_constants(True, 64, 1), num_warps=4).spilled == 0


@pytest.mark.parametrize(("target", "fp8"), [("sm_100", True), ("gfx942", True), ("gfx942", False)])
def test_decode_split_for_other_targets(target, fp8):
    arguments = split_arguments("*u8:16" if fp8 else "*bf16:16")
    build(decode_split._attend, arguments, split_constants(fp8, 64), target, num_warps=4)


@pytest.mark.parametrize("early", [True, False])
def test_combine(early):
    arguments = {"p_parts": "*fp32:16", "p_lse": "*fp32:16", "p_sink": "*fp32:16", "p_out": "*bf16:16"}
    arguments |= dict.fromkeys(("rows", "H", "splits"), "i32")
    constants = {"D": 512, "BLOCK_D": 512, "BLOCK_S": 8, "SINK": True, "EARLY": early}
    for changed in (arguments, *with_ones(arguments)):
        made = build(combine._combine, changed, constants)
        assert made.spilled == 0 and ("griddepcontrol.wait" in made.text) == early


def hopper_arguments(fp8: bool, split: bool) -> dict:
    ends = ENDS | {"p_out": "*fp32:16" if split else "*bf16:16"}
    caches = dict.fromkeys(("p_cache0", "p_cache1"), "*u8:16" if fp8 else "*bf16:16")
    tables = dict.fromkeys(("p_slots0", "p_slots1", "p_lengths0", "p_lengths1"), "*i32")
    counts = dict.fromkeys(("items", "width0", "width1", "stride_slots0", "stride_slots1"), "i32")
    return ends | caches | tables | counts | INTEGERS


def hopper_constants(fp8: bool, split: bool, page_size: int = 64) -> dict:
    pages = {"PAGE0": 64, "PAGE1": page_size}
    strides = {"STRIDE0": 64 * 585 if fp8 else 32768, "STRIDE1": {64: 37440, 2: 1728}[page_size] if fp8 else 32768}
    return pages | strides | {"D": 512, "FP8": fp8, "SOURCES": 2, "SINK": True, "SPLIT": split}


@pytest.mark.parametrize(("fp8", "split", "page_size"), [(True, False, 64), (True, True, 2), (False, False, 64)])
def test_hopper_heads(fp8, split, page_size):
    """What is spilled is read again behind the loads of a tile. Triton 3.6 spills nothing here, 3.7 four values."""
    constants = hopper_constants(fp8, split, page_size)
    made = build(hopper_heads._attend, hopper_arguments(fp8, split), constants, num_warps=hopper_heads.MULTIPLY_WARPS)
    assert made.spilled <= 16 and made.shared <= 227 << 10
    assert "wgmma.mma_async.sync.aligned.m64n128k16" in made.text and "setmaxnreg.inc" in made.text


@pytest.mark.parametrize(("block", "stages", "fp8"), [(8, 3, True), (16, 3, True), (32, 2, True), (8, 3, False)])
def test_hopper_keys(block, stages, fp8):
    constants = {"BLOCK_H": block, "STAGES": stages, "BRING_WARPS": 8, "BRING_REGISTERS": 128}
    constants |= hopper_constants(fp8, split=True)
    made = build(hopper_keys._attend, hopper_arguments(fp8, split=True), constants, num_warps=4)
    assert made.spilled == 0 and made.shared <= 227 << 10
    assert f"wgmma.mma_async.sync.aligned.m64n{block}k16" in made.text


@pytest.mark.parametrize("module", [hopper_heads, hopper_keys, decode_split])
def test_no_integer_is_compiled_in(module):
    plain = [p for p in module._attend.params if not p.is_constexpr and p.name not in ("scale", "widths", "strides")]
    integers = [p for p in plain if not p.name.startswith("p_")]
    assert {p.name for p in integers} >= {*INTEGERS} and all(p.do_not_specialize for p in integers)
