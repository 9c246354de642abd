import pytest
import torch
from suites import suite

from kernels.emit.fused import Emit

KNOBS = {"few": Emit(heads_per_program=2), "many": Emit(heads_per_program=16)}
STAGE = suite("emit", **KNOBS)
CASES = [case for case in STAGE.CASES if case.dtype == torch.float32 and case.nope < 448]


@pytest.mark.parametrize("name", KNOBS)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_equals_reference(name, case):
    STAGE.test_equals_reference(name, case, "cpu")


@pytest.mark.parametrize("name", KNOBS)
def test_equals_the_formula(name):
    STAGE.test_equals_the_formula_in_float64(name, "cpu")
    STAGE.test_it_undoes_the_rotation_of_the_query_position(name, "cpu")
    STAGE.test_padded_rows_do_not_reach_the_others(name, "cpu")
