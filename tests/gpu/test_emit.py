import pytest
import torch
from kernel_cases import ragged_rows, rope_for
from near import assert_one_rounding_apart
from suites import suite

from kernels.emit.fused import Emit
from kernels.emit.reference import Emit as Reference
from kernels.rope import rotate


def arguments(heads: int, groups: int, spans: list[tuple[int, int]], padding: int) -> dict:
    generator = torch.Generator("cuda").manual_seed(heads)
    rows = ragged_rows(spans, padding, "cuda")
    random = lambda *shape: torch.randn(shape, generator=generator, device="cuda")  # noqa: E731
    return {
        "o": random(len(rows.positions), heads, 512).bfloat16(),
        "rope": rope_for(64, "cuda"),
        "rows": rows,
        "wo_a": (random(groups, 1024, heads * 512 // groups) / (heads * 512 // groups) ** 0.5).bfloat16(),
    }


SHAPES = [(64, 8), (128, 16), (8, 1), (16, 2)]
SPANS = [[(length, length + 1) for length in range(0, 4000, 63)], [(0, 300), (17, 20)], [(4095, 4096)]]


KNOBS = {"default": Emit(), "wide": Emit(heads_per_program=16, num_warps=4), "overlap": Emit(overlap=True)}
STAGE = suite("emit", **KNOBS)


@pytest.mark.parametrize("name", KNOBS)
@pytest.mark.parametrize("spans", SPANS, ids=len)
@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_equals_reference(name, shape, spans):
    emit = KNOBS[name]
    given = arguments(*shape, spans, padding=3)
    o, rope, rows = given["o"], given["rope"], given["rows"]
    assert_one_rounding_apart(emit.unturned(o, rope, rows), rotate(o, rows.positions, rope, inverse=True))
    actual, expected = emit(**given).float(), Reference()(**given).float()
    assert (actual - expected).norm() < 5e-3 * expected.norm()


@pytest.mark.parametrize("name", KNOBS)
def test_the_checks_of_the_stage(name):
    for case in STAGE.CASES:
        STAGE.test_equals_reference(name, case, "cuda")
    STAGE.test_equals_the_formula_in_float64(name, "cuda")
    STAGE.test_it_undoes_the_rotation_of_the_query_position(name, "cuda")
    STAGE.test_padded_rows_do_not_reach_the_others(name, "cuda")
