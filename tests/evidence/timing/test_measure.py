import gc
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice, pairwise, permutations

import numpy as np
import pytest

from pipeline.evidence.samples import AT_POWER_CAP
from pipeline.evidence.timing import measure as module
from pipeline.evidence.timing.measure import Design, Hooks, Rounds, measure


def turns(rounds: int, steps: int, arms: int, seed: int) -> np.ndarray:
    """[round, step, arm] of the first rounds."""
    return np.array(list(islice(module.turns(steps, arms, seed), rounds)))


@dataclass
class FakeMachine:
    """Time that passes only when somebody spends it."""

    now: float = 0.0
    log: list = field(default_factory=list)
    ahead: list = field(default_factory=list)
    late: int = 0

    def __call__(self, call, ahead=False):
        start = self.now
        self.ahead.append(ahead)
        result = call()
        return self.now - start, result


@dataclass
class FakeArm:
    name: str
    machine: FakeMachine
    seconds: float
    compile_seconds: float = 0.0
    compiled: set = field(default_factory=set)
    repeats: int = 1
    replayed: tuple = ()

    def replays(self, step):
        assert self.machine.log[-1] == ("prepare", self.name, step), "asked of a prepared step"
        return step in self.replayed

    def prepare(self, step):
        self.machine.now += 100.0
        self.machine.log.append(("prepare", self.name, step))

    def step(self, step):
        assert not gc.isenabled()
        self.machine.log.append(("step", self.name, step))
        if step not in self.compiled:
            self.compiled.add(step)
            self.machine.now += self.compile_seconds
        self.machine.now += self.seconds * (step + 1)
        return self.name, step


def run(names="ab", warmup_rounds=1, rounds=4, steps=3, seconds=None, block_rounds=1, **hooks):
    machine = FakeMachine()
    arms = [FakeArm(name, machine, 1.0 + number, 0.5) for number, name in enumerate(names)]
    recorded = hooks.pop("recorded", Rounds(steps, len(arms)))
    measure(arms, recorded, Design(rounds, warmup_rounds, seconds, 5, block_rounds), machine, Hooks(**hooks))
    return recorded, machine, arms


def test_each_call_gets_its_own_time_and_preparation_none():
    timing, _, _ = run()
    expected = np.broadcast_to(np.arange(1, 4)[None, :, None] * np.array([1.0, 2.0]), (4, 3, 2))
    np.testing.assert_allclose(timing.seconds, expected)


def test_warm_up_runs_every_step_of_every_arm_and_is_not_recorded():
    """failure case C06: the first use of each shape is slow"""
    warm, machine, _ = run(warmup_rounds=2)
    assert len(warm) == 4
    assert warm.seconds[0, :, 0].tolist() == [1.0, 2.0, 3.0]
    steps = [entry for entry in machine.log if entry[0] == "step"]
    assert len(steps) == (2 + 4) * 3 * 2
    assert set(steps[:6]) == {("step", arm, step) for arm in "ab" for step in range(3)}


def test_without_warm_up_the_first_round_is_cold():
    cold, _, _ = run(warmup_rounds=0)
    np.testing.assert_allclose(cold.seconds[0, :, 0], [1.5, 2.5, 3.5])
    np.testing.assert_allclose(cold.seconds[1, :, 0], [1.0, 2.0, 3.0])


def test_arms_take_turns_step_by_step_in_the_recorded_order():
    timing, machine, _ = run("abc", warmup_rounds=0)
    names = iter([entry[1:] for entry in machine.log if entry[0] == "step"])
    for round_order in timing.order:
        for step, places in enumerate(round_order):
            for turn in range(3):
                assert next(names) == ("abc"[list(places).index(turn)], step)
    assert machine.log[0][0] == "prepare"
    for before, after in zip(machine.log[::2], machine.log[1::2], strict=True):
        assert before == ("prepare", *after[1:])


def test_hooks_see_recorded_steps_with_the_clock_stopped():
    seen, progress = [], []

    def on_step(number, step, arm, output):
        machine_free.append(gc.isenabled())
        seen.append((number, step, arm, output))

    machine_free = []
    timing, _, _ = run(on_step=on_step, on_progress=lambda done, total: progress.append((done, total)))
    assert sorted(seen) == [
        (number, step, arm, ("ab"[arm], step)) for number in range(4) for step in range(3) for arm in range(2)
    ]
    assert progress == [(done, 5) for done in range(1, 6)]
    np.testing.assert_allclose(timing.seconds[:, 0], [[1.0, 2.0]] * 4)


@pytest.mark.parametrize("was_enabled", [True, False])
def test_garbage_collection_is_left_as_it_was(was_enabled):
    try:
        (gc.enable if was_enabled else gc.disable)()
        run()
        assert gc.isenabled() is was_enabled
        with pytest.raises(ZeroDivisionError):
            run(on_step=lambda *_: 1 / 0)
        assert gc.isenabled() is was_enabled
    finally:
        gc.enable()


@pytest.mark.parametrize("fails", [True, False])
def test_what_was_frozen_for_the_rounds_is_thawed(monkeypatch, fails):
    called = []
    for name in ("freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda name=name: called.append(name))
    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        run(on_step=lambda *_: 1 / (not fails))
    assert called == ["freeze", "unfreeze"]


@pytest.mark.parametrize("arms", [1, 2, 3, 4, 5])
def test_every_arm_has_every_turn_equally_often(arms):
    order = turns(3 * arms, 2 * arms, arms, seed=0)
    assert order.shape == (3 * arms, 2 * arms, arms)
    assert (np.sort(order, axis=2) == np.arange(arms)).all()
    for arm in range(arms):
        for turn in range(arms):
            taken = order[:, :, arm] == turn
            assert (taken.sum(axis=0) == 3).all()
            assert (taken.sum(axis=1) == 2).all()


def followers(order):
    """[arm, arm]: how often the second ran right after the first, within a step."""
    found = np.zeros((order.shape[-1],) * 2, int)
    for places in order.reshape(-1, order.shape[-1]):
        for before, after in pairwise(np.argsort(places)):
            found[before, after] += 1
    return found


@pytest.mark.parametrize("arms", [2, 3, 4, 5, 6, 7])
def test_every_arm_runs_after_every_other_equally_often(arms):
    order = turns(4 * arms, 6 * arms, arms, seed=0)
    others = 1 - np.eye(arms, dtype=int)
    for round_order in order:
        np.testing.assert_array_equal(followers(round_order), 6 * others)
    for step in range(6 * arms):
        np.testing.assert_array_equal(followers(order[:, step]), 4 * others)


@pytest.mark.parametrize(("rounds", "steps", "arms"), [(20, 1, 3), (20, 2, 4), (40, 2, 5), (7, 16, 5)])
def test_predecessors_are_shared_where_nothing_divides(rounds, steps, arms):
    found = followers(turns(rounds, steps, arms, seed=1))[~np.eye(arms, dtype=bool)]
    assert found.sum() == rounds * steps * (arms - 1)
    assert found.min() >= 0.7 * rounds * steps / arms
    assert found.max() <= 1.3 * rounds * steps / arms


@pytest.mark.parametrize(("rounds", "steps", "arms"), [(7, 1, 3), (5, 2, 4), (20, 16, 5)])
def test_first_turns_are_shared_where_nothing_divides(rounds, steps, arms):
    first = (turns(rounds, steps, arms, seed=1) == 0).sum(axis=(0, 1))
    assert first.sum() == rounds * steps
    assert first.max() - first.min() <= 0.1 * rounds * steps + 2


def test_orders_are_random_and_seeded():
    order = turns(60, 60, 3, seed=2)
    assert {tuple(places) for places in order.reshape(-1, 3)} == set(permutations(range(3)))
    np.testing.assert_array_equal(order, turns(60, 60, 3, seed=2))
    assert (order != turns(60, 60, 3, seed=3)).any()


def test_no_round_begins_after_the_seconds_are_spent_but_an_interval_stays_possible(monkeypatch):
    ticks = iter(range(1000))
    monkeypatch.setattr("pipeline.evidence.timing.measure.time.monotonic", lambda: next(ticks))
    seen = []
    timing, _, _ = run(rounds=20, seconds=7.5, on_progress=lambda done, total: seen.append((done, total)))
    assert timing.seconds.shape == timing.order.shape == (12, 3, 2), "the clock is first asked before the sixth round"
    assert seen[-1] == (21, 21)
    short, _, _ = run(rounds=20, seconds=0.1)
    assert len(short.seconds) == 5


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_whole_rounds_outlive_an_interruption(error):
    def stop_in_third_round(number, step, arm, output):
        if (number, step) == (2, 1):
            raise error

    recorded = Rounds(3, 2)
    with pytest.raises(error):
        run(recorded=recorded, on_step=stop_in_third_round)
    whole, _, _ = run()
    assert len(recorded) == 2 and recorded.started > 0
    np.testing.assert_array_equal(recorded.seconds, whole.seconds[:2])
    np.testing.assert_array_equal(recorded.order, whole.order[:2])


def test_without_a_whole_round_the_shape_is_known():
    recorded = Rounds(3, 2)
    assert recorded.seconds.shape == recorded.order.shape == (0, 3, 2)
    assert (recorded.seconds.dtype, recorded.order.dtype) == (float, int)


def test_no_arm_is_a_mistake_of_the_caller():
    with pytest.raises(AssertionError, match="no arm"):
        turns(4, 3, 0, seed=0)


def test_the_time_of_a_step_that_repeats_its_work_is_that_of_one():
    machine = FakeMachine()
    recorded = Rounds(1, 2)
    arms = [FakeArm("a", machine, 1.0), FakeArm("b", machine, 1.0, repeats=20)]
    measure(arms, recorded, Design(2, 0, None, seed=0), machine)
    np.testing.assert_allclose(recorded.seconds, [[[1.0, 0.05]], [[1.0, 0.05]]])


def test_only_what_is_replayed_is_timed_with_the_host_ahead():
    machine = FakeMachine()
    arms = [FakeArm("a", machine, 1.0), FakeArm("b", machine, 1.0, replayed=(1,))]
    recorded = Rounds(2, 2)
    measure(arms, recorded, Design(3, 1, None, seed=0), machine)
    calls = [entry[1:] for entry in machine.log if entry[0] == "step"]
    assert len(calls) == len(machine.ahead) == 16
    assert [call == ("b", 1) for call in calls] == machine.ahead


def test_late_steps_are_counted_by_round_and_not_those_of_the_warm_up():
    machine = FakeMachine()
    arm = FakeArm("a", machine, 1.0, replayed=(0,))
    late, step = iter([5, 0, 2, 1, 0, 0]), arm.step

    def slowly(number):
        machine.late += next(late)
        return step(number)

    arm.step, recorded = slowly, Rounds(1, 1)
    measure([arm], recorded, Design(5, 1, None, seed=0), machine)
    assert recorded.late == [0, 2, 1, 0, 0]


def edges_of(reasons, **asked):
    """Runs blocks of two rounds, of which those in `reasons` are void for that reason; the edges that were seen."""
    seen = []

    def at_block_edge(first, last):
        seen.append((first, last))
        return reasons.get(len(seen) - 1, "")

    recorded, _, _ = run(block_rounds=2, at_block_edge=at_block_edge, **asked)
    return recorded, seen


def test_block_edges_are_seen_before_the_first_round_and_after_every_block():
    recorded, seen = edges_of({}, rounds=5)
    assert seen == [(0, -1), (0, 1), (2, 3), (4, 4)]
    assert recorded.void == [""] * 5 and recorded.counting == 5


def test_a_void_block_is_kept_with_its_reason_and_made_again_in_the_same_order():
    recorded, seen = edges_of({2: "hot", 3: "hot again"}, rounds=6)
    assert recorded.void == ["", "", "hot", "hot", "hot again", "hot again", "", "", "", ""]
    assert (len(recorded), recorded.counting) == (10, 6)
    assert seen[2:5] == [(2, 3), (4, 5), (6, 7)]
    sound = [number for number, reason in enumerate(recorded.void) if not reason]
    undisturbed, _, _ = run(rounds=6)
    np.testing.assert_array_equal(recorded.order[sound], undisturbed.order)
    np.testing.assert_array_equal(recorded.order[2:4], recorded.order[6:8])


def test_void_blocks_are_not_repeated_for_ever():
    recorded, _ = edges_of(dict.fromkeys(range(2, 100), "throttled"), rounds=6)
    assert (len(recorded), recorded.counting) == (12, 2)
    assert recorded.void == ["", ""] + ["throttled"] * 10


@pytest.mark.parametrize(("reason", "made"), [("hot", 10), (AT_POWER_CAP, 5)])
def test_the_last_block_is_cut_where_no_more_rounds_are_to_be_made(reason, made):
    recorded, _, _ = run(rounds=5, block_rounds=3, at_block_edge=lambda first, last: reason)
    assert (len(recorded), recorded.counting) == (made, 0)


@pytest.mark.parametrize(("reason", "made"), [(AT_POWER_CAP, 6), ("compiled", 12)])
def test_where_the_load_itself_is_at_the_power_cap_no_block_is_made_again(reason, made):
    recorded, _ = edges_of(dict.fromkeys(range(100), reason), rounds=6)
    assert (len(recorded), recorded.counting) == (made, 0)


def test_progress_never_leaves_the_whole():
    seen = []
    edges_of({2: "hot"}, rounds=6, on_progress=lambda done, total: seen.append((done, total)))
    assert {total for _, total in seen} == {7}
    assert max(done for done, _ in seen) == 7


def test_the_caller_may_end_it_at_a_block_edge_and_sees_what_is_recorded():
    seen, progress = [], []

    def on_block(recorded):
        seen.append((len(recorded), recorded.counting, recorded.seconds.shape))
        return len(recorded) == 6

    recorded, _, _ = run(rounds=20, block_rounds=3, on_block=on_block, on_progress=lambda *done: progress.append(done))
    assert len(recorded) == 6
    assert seen == [(3, 3, (3, 3, 2)), (6, 6, (6, 3, 2))]
    assert progress[-1] == (21, 21)


def test_spent_seconds_end_it_at_a_block_edge_once_an_interval_is_possible():
    short, _, _ = run(rounds=20, block_rounds=3, seconds=1e-9)
    assert len(short) == 15
    void, _ = edges_of(dict.fromkeys(range(100), "throttled"), rounds=20, seconds=1e-9)
    assert len(void) == 20, "twice the rounds that an interval needs"


def test_turns_are_drawn_as_they_are_needed():
    """All of them would take 400 GB."""
    recorded, _, _ = run(rounds=1 << 24, steps=100, block_rounds=2, on_block=lambda recorded: len(recorded) >= 6)
    assert len(recorded) == 6
