import pytest
import torch
from attend_cases import AttendCase
from kernel_cases import assert_near

from kernels.attend.decode_split import Attend
from kernels.attend.reference import Attend as Reference

INF = float("inf")
ATTENDS = [Attend(splits=1, heads=16, keys=16), Attend(splits=3, heads=32, keys=32), Attend(splits=12, keys=16)]


def small(**fields):
    shape = {"tokens": 5, "heads": 3, "widths": (7, 40), "page_sizes": (3, 2), "nope": 64, "rope": 8}
    return AttendCase(**shape | fields, dtype=torch.float32, device="cpu")


CASES = [
    small(),
    small(absent=0.0, seed=1),
    small(absent=0.9, seed=2, sinks=None),
    small(absent=1.0),
    small(first_block_absent=16, widths=(16, 34), layouts=("fp32", "fp32")),
    small(sinks=(INF, 100.0, -INF)),
    small(tokens=1, heads=1, widths=(1, 1), page_sizes=(1, 1)),
    small(tokens=0),
    small(widths=(5,), layouts=("fp32",), page_sizes=(3,), sinks=None),
    small(widths=(4, 5, 6), layouts=("fp32", "fp8_ds_mla", "bf16"), page_sizes=(1, 2, 3)),
    small(heads=17, nope=128, rope=16, tokens=2, widths=(9, 17)),
]


@pytest.mark.parametrize("attend", ATTENDS, ids=repr)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_equals_reference(attend, case):
    inputs = case.inputs()
    assert_near(attend(*inputs), Reference()(*inputs))


@pytest.mark.parametrize("attend", ATTENDS, ids=repr)
def test_a_row_without_keys_is_zero_whatever_the_query(attend):
    q, keys, sink, scale = small().inputs()
    for source in keys:
        source.lengths[2] = 0
    q[2] = float("nan")
    actual = attend(q, keys, sink, scale)
    assert torch.equal(actual[2], torch.zeros_like(actual[2])) and actual.isfinite().all()
