import pytest
from locate_cases import CASES, assert_located

from kernels.select import locate_batched, locate_churn, locate_constexpr, locate_fused, locate_runtime

ORDERED = [
    locate_runtime.Locate(block=4),
    locate_constexpr.Locate(block=8),
    locate_churn.Locate(block=8),
    locate_churn.Locate(programs=3, block=32),
    locate_churn.Locate(compiled_in=False, programs=2, block=8),
    locate_batched.Locate(rows_per_program=4, block=4),
    locate_batched.Locate(rows_per_program=1, block=32),
]
FUSED = [locate_fused.Locate(rows_per_program=1), locate_fused.Locate(rows_per_program=4, block=4)]


@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("locate", ORDERED, ids=lambda x: f"{type(x).__module__}-{x}")
def test_equals_reference(locate, case):
    assert_located(locate, case, "cpu", ordered=True)


@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.parametrize("locate", FUSED, ids=repr)
def test_fused_equals_reference(locate, case):
    assert_located(locate, case, "cpu", ordered=False)
