"""An arm that breaks what others use, or breaks under the clock, fails alone."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from pipeline.door.stages import stages
from pipeline.engine.arms.bench import Arms
from pipeline.engine.stack import blueprint
from pipeline.evidence.attempt import Listeners
from pipeline.evidence.examine import examine
from pipeline.evidence.timing.modes import Trial
from pipeline.evidence.timing.shared import SharedWeights, _tensors
from pipeline.work.workload import Case, Request
from tests.compose import config


@dataclass
class Writing:
    """An emit that scales its weights in place, from its `first` call on."""

    emit: Any
    first: int = 0
    calls: int = 0

    def __call__(self, o, rope, rows, wo_a):
        out = self.emit(o, rope, rows, wo_a)
        self.calls += 1
        if self.calls > self.first:
            wo_a.mul_(2)
        return out


@dataclass
class Breaking:
    emit: Any
    first: int
    calls: int = 0

    def __call__(self, *arguments):
        self.calls += 1
        if self.calls > self.first:
            raise RuntimeError("no such luck")
        return self.emit(*arguments)


def made(*overrides: str, dtype: str = "fp32"):
    asked = config("+exp=short_ctx", "model=tiny", "engine.device=cpu", "measure=default", *overrides)
    measure = replace(asked.measure, rounds=4, block_rounds=1, warmup_rounds=1, breakdown=False)
    return replace(asked, measure=measure, engine=replace(asked.engine, dtype=dtype))


def examined(change, dtype: str = "fp32"):
    """`row` has the changed emit and comes second of three; what was kept; and the weights."""
    asked, kept = made(dtype=dtype), []
    requests = (Request(0.0, 8, 9, 3),)
    case = Case("mine", "mine", 11, requests, "digest")
    arms = {name: stages(asked.arms[name]) for name in ("never", "row", "batch")}
    arms["row"] = replace(arms["row"], emit=change(arms["row"].emit))
    stack = blueprint(asked, 11)
    before = {name: tensor.clone() for name, tensor in _tensors(stack).items()}
    trial = Trial(case, asked)
    found = examine(trial, Arms(stack, arms, stages(asked.reference)), Listeners(kept.append))
    assert all(torch.equal(tensor, before[name]) for name, tensor in _tensors(stack).items())
    return found, kept, len(trial.steps)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_an_arm_that_writes_to_the_weights_fails_and_no_other_does(dtype):
    found, _, _ = examined(Writing, dtype)
    assert {name: check.passed for name, check in found.checks.items()} == {"never": True, "row": False, "batch": True}
    assert "writes to o_a of layer 1, which all arms share" in found.checks["row"].detail
    assert found.samples.arms == ("never", "batch") and len(found.samples.seconds) == 4


def test_an_arm_that_writes_when_it_is_timed_is_found_after_it():
    steps = 3
    found, _, _ = examined(lambda emit: Writing(emit, first=2 * steps))
    assert not found.checks["row"].passed and found.checks["never"].passed
    assert "after it was timed: writes to o_a of layer 1" in found.checks["row"].detail


def test_an_arm_that_breaks_under_the_clock_fails_and_the_others_are_timed():
    found, kept, steps = examined(lambda emit: Breaking(emit, first=2 * 3 + 3 * 2))
    assert steps == 3
    assert {name: check.passed for name, check in found.checks.items()} == {"never": True, "row": False, "batch": True}
    assert "could not run under the clock: step 0: RuntimeError: no such luck" in found.checks["row"].detail
    assert found.samples.arms == ("never", "batch") and found.samples.seconds.shape == (4, 3, 2)
    assert not found.samples.partial and kept[-1] is found.samples
    assert kept[0].partial and kept[0].arms == ("never", "row", "batch") and len(kept[0].seconds) >= 1


def test_what_a_kernel_writes_is_seen_where_torch_counts_nothing():
    asked = made()
    stack = blueprint(asked, 11)
    shared = SharedWeights(asked, stack)
    assert not shared.written()
    stack.weights[0].sink.data.numpy()[1] += 1e-6
    assert shared.written() == "sink of layer 1" and not shared.written()
