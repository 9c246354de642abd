import pytest
from cover_cases import CASES, WIDTHS, assert_covered

from kernels.cover.fused import Cover


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_equals_reference_at_every_width(case, width):
    assert_covered(Cover(width, block=64), case, "cpu")
    assert_covered(Cover(width, rows_per_program=4, block=1024), case, "cpu")
