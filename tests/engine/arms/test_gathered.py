"""Prompts attended from a workspace, and what layers share in a step: the same as straight and one by one."""

from dataclasses import replace

import pytest
import torch

from kernels.cover.eager import Cover
from kernels.gather.eager import Gather
from tests.engine.layers import Shape
from tests.engine.runnable import arm_on, asked, with_stage

REQUESTS = [asked(0, 37, 2), asked(29, 30, 2), asked(50, 90, 2), asked(0, 5, 2)]
STACK = ("engine.layers=all", "model.schedule=[swa,hca,csa,hca,swa,csa,hca]")


def outputs(arm) -> list[torch.Tensor]:
    found = []
    for step in range(len(arm.plan.inputs)):
        arm.prepare(step)
        found += [output.y for output in arm.step(step)]
    return found


def assert_same(one: list[torch.Tensor], other: list[torch.Tensor]) -> None:
    assert len(one) == len(other)
    for mine, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("variant", ["gathered", "shared"])
def test_a_stack_gives_what_it_gives_straight_from_the_caches(variant):
    arms = [arm_on(REQUESTS, *STACK, variant=name) for name in ("never", variant)]
    decodes = [inputs.decodes for inputs in arms[0].plan.inputs]
    assert any(decodes) and not all(decodes)
    assert_same(*map(outputs, arms))


def test_chosen_for_some_rows_only():
    arms = [arm_on(REQUESTS, variant=name) for name in ("row", "gathered")]
    arms[1] = arms[1].with_stages(replace(arms[1].stages, select=arms[0].stages.select))
    assert_same(*map(outputs, arms))


@pytest.mark.parametrize("width", ["adaptive", "full"])
def test_wider_slots_change_nothing(width):
    arm = arm_on(REQUESTS, "engine.layers=hca")
    wide = with_stage(arm, "cover", lambda _: Cover(width))
    assert_same(outputs(arm), outputs(wide))


class Counted:
    def __init__(self, stage):
        self.stage, self.kinds = stage, []

    def __call__(self, *call):
        self.kinds.append(call)
        return self.stage(*call)


@pytest.mark.parametrize(("variant", "covers", "combines"), [("gathered", 3, 7), ("shared", 1, 4)])
def test_layers_of_a_kind_share_all_but_what_the_indexer_chose(variant, covers, combines):
    """Of 2 swa, 3 hca and 2 csa layers: slots in a decode step, indices in one with prompts."""
    counted = {}

    def count(stage):
        return counted.setdefault("last", Counted(stage))

    for scope, expected, wanted in (("cover", covers, True), ("combine", combines, False)):
        counted.clear()
        arm = with_stage(arm_on(REQUESTS, *STACK, variant=variant), scope, count)
        steps = [step for step, inputs in enumerate(arm.plan.inputs) if inputs.decodes is wanted]
        outputs(arm)
        assert len(counted["last"].kinds) == expected * len(steps) > 0


def test_a_workspace_over_budget_stops_the_step():
    arm = with_stage(arm_on(REQUESTS, variant="gathered"), "gather", lambda _: Gather(max_rows=20))
    arm.prepare(0)
    with pytest.raises(ValueError, match=r"more than prefill\.gather\.max_rows=20"):
        arm.step(0)


@pytest.mark.parametrize("kind", ["csa", "hca"])
def test_the_selection_is_worked_out_from_what_was_attended(kind):
    shape = Shape(kind)
    hidden = {"a": shape.hidden(60), "b": shape.hidden(33, 1)}
    fed = [shape.session(variant).feed(hidden, padding=2) for variant in ("never", "gathered")]
    for name in hidden:
        straight, gathered = (each[name].selected for each in fed)
        width = min(straight.shape[1], gathered.shape[1])
        assert torch.equal(straight[:, :width].sort(1).values, gathered[:, :width].sort(1).values)
        assert (straight[:, width:] == -1).all() and (gathered[:, width:] == -1).all()
