"""An arm that breaks what others use, or breaks under the clock, fails alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from pipeline.door.stages import stages
from pipeline.engine.arms.bench import Arms, bench
from pipeline.engine.stack import blueprint
from pipeline.evidence.attempt import Listeners
from pipeline.evidence.examine import examine
from pipeline.evidence.timing.modes import Trial
from pipeline.evidence.timing.shared import Shared, _sums, _tensors, _within
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
class Once:
    """An emit that does something to what it was given in its call `at`, after its work."""

    emit: Any
    at: int
    what: Callable
    calls: int = 0

    def __call__(self, *arguments):
        out = self.emit(*arguments)
        self.calls += 1
        if self.calls == self.at:
            self.what(*arguments)
        return out


@dataclass
class Breaking:
    emit: Any
    first: int
    calls: int = 0
    writes: bool = False

    def __call__(self, *arguments):
        self.calls += 1
        if self.calls > self.first:
            if self.writes:
                arguments[-1].mul_(2)
            raise RuntimeError("no such luck")
        return self.emit(*arguments)


def made(*overrides: str, dtype: str = "fp32"):
    asked = config("+exp=short_ctx", "model=tiny", "engine.device=cpu", "measure=default", *overrides)
    measure = replace(asked.measure, rounds=4, block_rounds=1, warmup_rounds=1, breakdown=False)
    return replace(asked, measure=measure, engine=replace(asked.engine, dtype=dtype))


def examined(change, dtype: str = "fp32", scope: str = "stack", names=("never", "row", "batch")):
    """`row` has the changed emit and is one of three; what was kept; and the weights."""
    asked, kept = made(f"measure.scope={scope}", dtype=dtype), []
    requests = (Request(0.0, 8, 9, 3),)
    case = Case("mine", "mine", 11, requests, "digest")
    arms = {name: stages(asked.arms[name]) for name in names}
    arms["row"] = replace(arms["row"], emit=change(arms["row"].emit))
    stack = blueprint(asked, 11)
    before = {name: tensor.clone() for name, tensor in _within(stack.weights)}
    trial = Trial(case, asked)
    found = examine(trial, Arms(stack, arms, stages(asked.reference)), Listeners(kept.append))
    assert all(torch.equal(tensor, before[name]) for name, tensor in _within(stack.weights))
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
    shared, stack, _ = shared_of(asked)
    assert not shared.written()
    stack.weights[0].sink.data.numpy()[1] += 1e-6
    assert shared.written() == "sink of layer 1" and not shared.written()


def shared_of(asked):
    stack = blueprint(asked, 11)
    trial = Trial(Case("mine", "mine", 11, (Request(0.0, 8, 9, 3),), "digest"), asked)
    arms = Arms(stack, {"never": stages(asked.arms["never"])}, stages(asked.reference))
    reference = bench(asked, trial.case, trial.steps, arms).reference
    return Shared(trial, stack, reference), stack, reference


def test_everything_that_is_shared_is_watched_and_put_back():
    shared, stack, arm = shared_of(made())
    tensors = _tensors(stack, arm.plan, arm.hidden)
    expected = {
        "o_a of layer 1",
        "cos of the csa rope",
        "sin of the csa rope",
        "batch.rows.positions of step 0",
        "batch.seq_lens of step 2",
        "pages.csa.entries.block_table of step 1",
        "pages.window.slot_mapping of step 1",
        "window_slots of step 0",
        "0.slots.window of the prefixes of step 0",
        "the block of the hidden states",
    }
    assert expected <= set(tensors)
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        data = tensor.flatten().view(torch.uint8).numpy() if tensor.numel() else []
        if len(data):
            data[-1] ^= 1
            assert shared.written() == name
    assert all(torch.equal(tensor, before[name]) for name, tensor in tensors.items())
    arm.hidden[1].zero_()
    assert shared.written() == "the block of the hidden states"


@pytest.mark.parametrize("parts", [2, 4096])
def test_a_permutation_is_a_change(parts):
    shared, stack, _ = shared_of(made())
    o_b = stack.weights[0].o_b.view(parts, -1)
    o_b.copy_(o_b.flip(0).clone())
    assert shared.written() == "o_b of layer 1" and not shared.written()


def test_two_words_that_differ_in_their_signs_alone_and_change_places_are_a_change():
    one = torch.zeros(64, dtype=torch.int64)
    one[3] = -(2**63)
    assert _sums([one]) != _sums([one.roll(1)]) != _sums([one.roll(2)])


@pytest.mark.parametrize(
    ("what", "named"),
    [
        (lambda o, rope, rows, wo_a: rope.cos.mul_(-1), "cos of the csa rope"),
        (lambda o, rope, rows, wo_a: rows.positions.sub_(3), "batch.rows.positions of step 0"),
        (lambda o, rope, rows, wo_a: wo_a.copy_(wo_a.flip(0).clone()), "o_a of layer 1"),
    ],
)
def test_an_arm_that_writes_to_anything_shared_fails_and_no_other_does(what, named):
    found, _, _ = examined(lambda emit: Once(emit, 1, what))
    assert {name: check.passed for name, check in found.checks.items()} == {"never": True, "row": False, "batch": True}
    assert f"writes to {named}, which all arms share" in found.checks["row"].detail


def test_an_arm_that_writes_and_raises_under_the_clock_fails_alone():
    found, _, _ = examined(lambda emit: Breaking(emit, first=2 * 3 + 3 * 2, writes=True))
    assert {name: check.passed for name, check in found.checks.items()} == {"never": True, "row": False, "batch": True}
    detail = found.checks["row"].detail
    assert "no such luck; by then o_a of layer 1, which all arms share, had been written to" in detail


def test_an_arm_that_raises_while_the_inputs_of_a_stage_are_recorded_fails_alone():
    found, _, _ = examined(lambda emit: Breaking(emit, first=3 + 1), scope="emit", names=("row", "never", "batch"))
    assert {name: check.passed for name, check in found.checks.items()} == {"row": False, "never": True, "batch": True}
    assert found.checks["row"].detail == (
        "could not run to record what emit is called with: step 1: RuntimeError: no such luck"
    )
    assert found.samples.arms == ("never", "batch") and found.samples.seconds.shape == (4, 3, 2)
