import pytest
from compiling import build, with_ones

from kernels.combine import tokens, workers
from kernels.gather import fused

OUT = {"p_indices": "*i32:16", "p_lengths": "*i32:16", "p_chosen": "*i32:16"}
STEP = {"p_start": "*i32:16", "p_seq_lens": "*i32:16"}
SIZES = {"tokens": "i32", "columns": "i32:16", "topk": "i32:16", "entries": "i32", "stride_request": "i32"}
ROWS = {"p_positions": "*i32:16", "p_valid": "*i1:16"}
WORKERS = OUT | ROWS | STEP | SIZES
TOKENS = OUT | ROWS | {"p_request": "*i32:16"} | STEP | SIZES
GATHER = {"p_space": "*bf16:16", "p_main": "*u8:16", "p_window": "*u8:16"}
GATHER |= {"p_main_table": "*i32:16", "p_window_table": "*i32:16"} | STEP
GATHER |= dict.fromkeys(("entries", "entry_tiles", "stride_request", "stride_main", "stride_window"), "i32")
FP8 = {"FP8": True, "PAGES": (64, 64), "STRIDES": (37440, 37440), "A": 448, "B": 64, "BLOCK_A": 512, "BLOCK_B": 64}
MODEL = {"RATIO": 4, "WINDOW": 128}
KERNELS = {
    "workers": (workers.combine_kernel, WORKERS, MODEL | {"BLOCK": 1024}),
    "tokens": (
        tokens.combine_kernel,
        TOKENS,
        MODEL | {"ROWS": 8, "BLOCK": 128, "LOAD": "", "STORE": "", "OVERLAP": False},
    ),
    "gather": (fused.gather_kernel, GATHER, MODEL | FP8 | {"ROWS": 8}),
}


@pytest.mark.parametrize("name", KERNELS)
def test_every_integer_may_be_1(name):
    kernel, arguments, constants = KERNELS[name]
    for changed in (arguments, *with_ones(arguments)):
        assert build(kernel, changed, constants).spilled == 0


@pytest.mark.parametrize("target", ["sm_100", "gfx942"])
@pytest.mark.parametrize("name", ["workers", "tokens"])
def test_other_targets(name, target):
    build(*KERNELS[name], target)


@pytest.mark.parametrize("ratio", [0, 128])
@pytest.mark.parametrize("name", ["workers", "tokens"])
def test_without_chosen_entries_nothing_is_read_of_them(name, ratio):
    kernel, arguments, constants = KERNELS[name]
    arguments = {key: kind for key, kind in arguments.items() if key != "p_chosen"}
    made = build(kernel, arguments, constants | {"p_chosen": None, "RATIO": ratio})
    assert made.spilled == 0 and "p_chosen" not in made.text and "div." not in made.text


@pytest.mark.parametrize("name", ["workers", "tokens"])
def test_rows_move_16_bytes_at_a_time_and_not_through_shared_memory(name):
    made = build(*KERNELS[name], num_warps=1)
    assert "st.global.v4.b32" in made.text and "ld.global.v4.b32" in made.text and made.shared == 0


@pytest.mark.parametrize("pages", [(2, 64), (1, 64)])
def test_pages_of_hca_layers_are_gathered(pages):
    kernel, arguments, constants = KERNELS["gather"]
    made = build(kernel, arguments, constants | {"PAGES": pages, "STRIDES": (1728, 37440), "RATIO": 128})
    assert made.spilled == 0


def test_plain_rows_are_gathered():
    kernel, arguments, constants = KERNELS["gather"]
    plain = {"FP8": False, "A": 512, "B": 0, "BLOCK_B": 16, "STRIDES": (64 * 512, 64 * 512)}
    made = build(kernel, arguments | {"p_main": "*bf16:16", "p_window": "*bf16:16"}, constants | plain)
    assert made.spilled == 0
