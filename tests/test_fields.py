"""The names of the stages: what is kept for each stage by name is kept for all of them."""

import numpy as np
import pytest

from pipeline.door.variants import contracts
from pipeline.engine.select import Select
from pipeline.evidence.breakdown.cost import cost
from pipeline.evidence.breakdown.geometry import Geometry, Lengths
from pipeline.fields import STAGES
from pipeline.results.plots import palette
from tests.compose import config

UNTIMED = {"shortcut"}  # decides what others do, and takes no time of its own


def test_stages_are_what_a_variant_can_name():
    named = {place.rpartition(".")[2] for place, _ in contracts()}
    assert set(STAGES) == named - UNTIMED | {"select"}
    assert len(STAGES) == len(set(STAGES))


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_a_cost(stage):
    made = config("+exp=short_ctx", "engine.device=cpu", "engine.dtype=bf16")
    long = Lengths(np.array([8191]), np.array([1]))
    assert cost(stage, None, Geometry(made.model, made.engine, "csa"), long).bytes > 0


def test_every_stage_that_a_layer_calls_has_a_colour_of_its_own():
    assert set(palette.STAGES) == set(STAGES) - set(Select.parts())
    assert len(set(palette.STAGES.values())) == len(palette.STAGES)
