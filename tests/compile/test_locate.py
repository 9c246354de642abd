import pytest
from compiling import build, with_ones

from kernels.select import fill, locate_batched, locate_churn, locate_constexpr, locate_fused, locate_runtime

ROWS = {"p_request": "*i32:16", "p_valid": "*i1:16", "p_table": "*i32:16"}
OUT = {"p_slots": "*i32:16", "p_lengths": "*i32:16"}
GEOMETRY = ("stride_slots", "stride_entries", "width", "stride_table", "page_size")
RUNTIME = OUT | {"p_entries": "*i32:16"} | ROWS | dict.fromkeys(GEOMETRY, "i32:16")
BATCHED = (
    OUT
    | {"p_entries": "*i32:16", "p_positions": "*i32:16"}
    | ROWS
    | {"tokens": "i32", "width": "i32:16", "stride_table": "i32"}
)
FUSED = OUT | {"p_chosen": "*i32:16", "p_index": "*i64:16", "p_positions": "*i32:16"} | ROWS
FUSED |= {"tokens": "i32", "scored": "i32", "width": "i32:16", "stride_table": "i32"}
FILL = {"p_entries": "*i32:16", "p_positions": "*i32:16", "p_valid": "*i1:16", "width": "i32:16"}
BLOCKS = {"RATIO": 4, "PAGE_SIZE": 64, "ROWS": 4, "BLOCK": 512, "LOAD": "", "STORE": "", "OVERLAP": False}
KERNELS = {
    "fill": (fill.fill_kernel, FILL, {"RATIO": 4, "BLOCK": 512}),
    "runtime": (locate_runtime.locate_kernel, RUNTIME, {"BLOCK": 1024}),
    "batched": (locate_batched.locate_kernel, BATCHED, BLOCKS),
    "fused": (locate_fused.locate_kernel, FUSED, BLOCKS),
}


@pytest.mark.parametrize("name", KERNELS)
def test_every_integer_may_be_1(name):
    kernel, arguments, constants = KERNELS[name]
    for changed in (arguments, *with_ones(arguments)):
        assert build(kernel, changed, constants).spilled == 0


@pytest.mark.parametrize("target", ["sm_100", "gfx942"])
@pytest.mark.parametrize("name", KERNELS)
def test_other_targets(name, target):
    build(*KERNELS[name], target)


@pytest.mark.parametrize("page_size", [1, 2, 64])
def test_geometry_compiled_in(page_size):
    arguments = {name: RUNTIME[name] for name in RUNTIME if name not in GEOMETRY}
    geometry = dict(zip(GEOMETRY, (512, 512, 512, 16, page_size), strict=True))
    rows = {"tokens": 1700}
    for kernel, more in ((locate_constexpr.locate_kernel, {}), (locate_churn.locate_kernel, rows)):
        made = build(kernel, arguments, geometry | more | {"BLOCK": 1024})
        assert made.spilled == 0 and "div." not in made.text and "rem." not in made.text


def test_the_rows_that_are_compiled_in_bound_a_loop():
    arguments = {name: RUNTIME[name] for name in RUNTIME if name not in GEOMETRY}
    geometry = dict(zip(GEOMETRY, (512, 512, 512, 16, 64), strict=True)) | {"BLOCK": 1024}
    made = build(locate_churn.locate_kernel, arguments, geometry | {"tokens": 1700})
    assert made.spilled == 0 and "1700" in made.text and "1701" not in made.text
    bound = build(locate_churn.bound_kernel, arguments | {"tokens": "i32"}, geometry)
    assert bound.spilled == 0 and "1700" not in bound.text


def test_without_chosen_rows_nothing_is_read_of_them():
    arguments = {name: kind for name, kind in FUSED.items() if name not in ("p_chosen", "p_index")}
    made = build(locate_fused.locate_kernel, arguments, BLOCKS | {"p_chosen": None, "p_index": None})
    assert made.spilled == 0 and "p_chosen" not in made.text


@pytest.mark.parametrize("name", ["batched", "fused"])
def test_rows_move_16_bytes_at_a_time(name):
    text = build(*KERNELS[name]).text
    assert "st.global.v4.b32" in text and "ld.global.v4.b32" in text


@pytest.mark.parametrize("name", ["batched", "fused"])
def test_slots_may_be_kept(name):
    kernel, arguments, constants = KERNELS[name]
    text = build(kernel, arguments, constants | {"LOAD": "evict_first", "STORE": "evict_last"}).text
    assert "evict_first" in text and "evict_last" in text


@pytest.mark.parametrize("name", ["batched", "fused"])
def test_nothing_goes_through_shared_memory(name):
    assert build(*KERNELS[name]).shared == 0


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_overlapping_launches_wait_before_they_read(target):
    text = build(locate_batched.locate_kernel, BATCHED, BLOCKS | {"OVERLAP": True}, target).text
    assert 0 < text.index("griddepcontrol.wait") < text.index("ld.global")
