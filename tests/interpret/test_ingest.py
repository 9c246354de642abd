import pytest
import torch
from suites import suite

from kernels.ingest.fused import Ingest

KNOBS = {"few": Ingest(heads_per_program=2), "many": Ingest(heads_per_program=16)}
STAGE = suite("ingest", **KNOBS)
CASES = [case for case in STAGE.CASES if case.dtype == torch.float32 and case.layout == "fp32"]


@pytest.mark.parametrize("name", KNOBS)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_equals_reference(name, case):
    STAGE.test_equals_reference(name, case, "cpu")


@pytest.mark.parametrize("name", KNOBS)
def test_equals_the_formula(name):
    STAGE.test_equals_the_formula_in_float64(name, "cpu")


@pytest.mark.parametrize("name", KNOBS)
def test_inert_rows(name):
    STAGE.test_padded_rows_write_nothing_and_change_nothing(name, "fp32", "cpu")
    STAGE.test_a_valid_token_without_a_slot_writes_nothing(name, "cpu")
