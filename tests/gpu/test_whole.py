"""Whole layers against the float32 reference, the arm's selection held fixed, at the shapes of Flash and Pro."""

import pytest

from pipeline.evidence.check import Checker
from tests.gpu.test_graph import built

SHAPES = {
    "Flash, a rank of eight": ("model=v4_flash", "engine.tp=8"),
    "Flash, top 768": ("model=v4_flash", "model.topk=768"),
    "Pro": ("model=v4_pro",),
    "Pro, a rank of eight": ("model=v4_pro", "engine.tp=8"),
}


@pytest.mark.parametrize("kind", ["swa", "csa", "hca"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variant", ["triton", "hopper", "hopper_fp8", "hopper_streams"])
def test_passes_the_check(variant, shape, kind):
    lab = built(kind, variant, overrides=SHAPES[shape])
    [arm] = lab.arms
    for each in (arm, arm.with_stages(arm.stages)):  # as graphs, then eagerly
        found = Checker(lab.reference)(each)
        assert found.passed, found.detail
