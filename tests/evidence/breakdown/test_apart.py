"""Breakdowns on a machine whose time passes only when a stage spends it."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.engine.arms.arm import ArmFailed
from pipeline.engine.arms.parts import PER_GRAPH, Part, Place, Work
from pipeline.evidence.breakdown import apart as apart_module
from pipeline.evidence.breakdown.apart import take_apart
from pipeline.evidence.breakdown.cost import cost
from pipeline.evidence.breakdown.geometry import Geometry, Lengths
from pipeline.evidence.breakdown.shares import breakdowns
from pipeline.evidence.costs import Roof
from pipeline.evidence.stats import Rule
from pipeline.evidence.timing.instruments import Instruments
from pipeline.evidence.timing.modes import Trial
from pipeline.evidence.timing.watch import CpuReading, Watch
from pipeline.work.schedule import schedule
from pipeline.work.workload import Case, Request
from tests.compose import config
from tests.evidence.breakdown.test_explain import whole
from tests.evidence.timing.test_measure import FakeMachine

RULE = Rule(margin=0.02, confidence=0.95, resamples=1000, seed=0, block_rounds=4)
ROOF = Roof(copy_bytes_per_second=1e12, matrix_flops_per_second=1e14, launch=1e-6)
REQUESTS, LONG_REQUESTS = (tuple(Request(0.0, held, held + 1, 3) for _ in range(4)) for held in (63, 8191))
CASE = Case("decode-66", "decode", 66, REQUESTS, "digest")
LONG = Case("decode-8194", "decode", 8194, LONG_REQUESTS, "digest")
STEPS = schedule(REQUESTS, 8, 64, True)
ASKED = config("+exp=short_ctx", "engine.device=cpu", "engine.dtype=bf16")
FLUSH = 30e-6


class FakePart(Part):
    """A graph takes its repetitions, each behind a flush."""

    def prepare(self, step):
        pass

    def step(self, step):
        for _ in range(self.times(step)):
            if step in self.graphed:
                self.flush()
            if step in self.work:
                self.work[step]()


@pytest.fixture
def machine(monkeypatch):
    made = FakeMachine()

    def timed(place, arms, *seconds, layers=1.0, graphed=(), implementation="kernel"):
        def spend(taken):
            made.now += taken

        work = {
            step: Work(implementation, ((spend, (taken,)),), layers, False, False)
            for step, taken in enumerate(seconds)
            if taken
        }
        return FakePart(arms[0], place, work, list(arms), frozenset(graphed), lambda: spend(FLUSH))

    made.timed = timed
    made.parts = []
    monkeypatch.setattr(apart_module, "parts", lambda arms, numbers, running: made.parts)
    return made


def taken(machine, kept=None, case=CASE, beside=None):
    keep = (kept if kept is not None else []).append
    return take_apart(Trial(case, ASKED, "graph"), [], machine, keep, beside)


def test_a_step_is_its_stages_and_a_rest(machine):
    machine.parts = [
        machine.timed(Place("csa", "ingest", None), ["a", "b"], 10e-6, 20e-6, layers=3.0),
        machine.timed(Place("hca", "ingest", None), ["a", "b"], 1e-6, 3e-6),
        machine.timed(Place("csa", "attend", None), ["a", "b"], 4e-6, 4e-6),
        machine.timed(Place("csa", "select", None), ["a"], 40e-6, 50e-6),
        machine.timed(Place("csa", "score", "select"), ["a"], 30e-6, 30e-6),
        machine.timed(Place("csa", "select", None), ["b"], 8e-6, 8e-6),
    ]
    samples = whole(a=(120e-6, 1.0, 140e-6), b=(80e-6, 1.0, 90e-6))
    a, b = breakdowns(taken(machine), samples, ROOF, RULE, ["a", "b", "absent"])
    assert (a.case, a.arm, a.steps) == ("decode-66", "a", (0, 2))
    assert a.step == pytest.approx(130e-6) and b.step == pytest.approx(85e-6)
    seconds = {(stage.stage, stage.within): stage.seconds for stage in a.stages}
    assert seconds == pytest.approx(
        {("ingest", None): 47e-6, ("select", None): 45e-6, ("score", "select"): 30e-6, ("attend", None): 4e-6}
    )
    assert [stage.stage for stage in a.stages] == ["ingest", "select", "score", "attend"], "as in a layer"
    assert a.rest == pytest.approx(130e-6 - 47e-6 - 45e-6 - 4e-6), "a part of a stage is not counted again"
    assert b.rest == pytest.approx(85e-6 - 47e-6 - 8e-6 - 4e-6)
    ingest = a.stages[0]
    assert ingest.share == pytest.approx(47 / 130)
    assert ingest.calls == 4
    assert ingest.low == pytest.approx(47e-6) and ingest.high == pytest.approx(47e-6)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_was_recorded_before_it_was_cut_short_is_kept(machine, error):
    attend = machine.timed(Place("csa", "attend", None), ["a"], 50e-6, 50e-6)
    breaking = machine.timed(Place("csa", "ingest", None), ["a"], 1e-6, 1e-6)
    spend, calls = breaking.step, []

    def step(number):
        calls.append(number)
        if len(calls) > 2 * 4:
            raise error("enough")
        return spend(number)

    breaking.step = step
    machine.parts, kept = [attend, breaking], []
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else ArmFailed):
        taken(machine, kept)
    assert [samples.case for samples in kept] == ["decode-66@csa.attend", "decode-66@csa.ingest"]
    for samples, seconds in zip(kept, (50e-6, 1e-6), strict=True):
        assert samples.partial
        np.testing.assert_allclose(samples.seconds, np.full((3, 2, 1), seconds))


def test_limits_are_those_of_the_same_steps(machine):
    machine.parts = [
        machine.timed(Place("csa", "attend", None), ["a"], 50e-6, 50e-6, layers=2.0),
        machine.timed(Place("csa", "ingest", None), ["a"], 1e-6, 1e-6),
        machine.timed(Place("csa", "project", None), ["a"], 1e-3, 1e-3),
    ]
    [found] = breakdowns(taken(machine), whole(a=(1.2e-3, 1.0, 1.2e-3)), ROOF, RULE, ["a"])
    project, ingest, attend = found.stages
    geometry = Geometry(ASKED.model, ASKED.engine, "csa")
    lengths = [Lengths(np.full(4, start), np.ones(4, int)) for start in (63, 65)]
    costs = [cost("attend", None, geometry, step) for step in lengths]
    assert attend.bytes == pytest.approx(sum(each.bytes for each in costs), abs=1), "two layers, mean of two steps"
    assert attend.flops == pytest.approx(sum(each.flops for each in costs), abs=1)
    assert attend.limit == pytest.approx(max(attend.bytes / 1e12, attend.flops / 1e14))
    assert attend.achieved_bytes_per_second == pytest.approx(attend.bytes / 100e-6)
    assert project.bound_by == "bytes"
    assert ingest.bytes / 1e12 < 1e-6 and ingest.bound_by == "launch"
    assert found.limit == pytest.approx(project.limit + ingest.limit + attend.limit)
    assert found.bytes_limit == pytest.approx((project.bytes + ingest.bytes + attend.bytes) / 1e12)


def test_products_in_fp8_have_their_own_rate(machine):
    machine.parts = [machine.timed(Place("csa", "score", "select"), ["a"], 1e-3, 1e-3)]
    samples, apart = whole(a=(2e-3, 1.0, 2e-3)), taken(machine, case=LONG)
    slow = replace(ROOF, copy_bytes_per_second=1e18)
    [as_bf16] = breakdowns(apart, samples, slow, RULE, ["a"])
    [as_fp8] = breakdowns(apart, samples, replace(slow, fp8_flops_per_second=2e14), RULE, ["a"])
    assert as_bf16.stages[0].flops == 4 * 2 * 64 * 128 * 2048
    assert as_bf16.stages[0].limit == pytest.approx(as_bf16.stages[0].flops / 1e14)
    assert as_fp8.stages[0].limit == pytest.approx(as_bf16.stages[0].limit / 2)


def test_what_stands_between_the_calls_of_a_graph_is_taken_away(machine):
    machine.parts = [
        machine.timed(Place("csa", "attend", None), ["a"], 5e-6, 7e-6, graphed=[1]),
        machine.timed(None, ["flush"], graphed=[1]),
    ]
    kept = []
    apart = taken(machine, kept)
    np.testing.assert_allclose(apart.parts[0].seconds, [[5e-6, 7e-6]] * len(apart.parts[0].seconds))
    assert machine.parts[0].times(1) == PER_GRAPH and machine.parts[0].times(0) == 1
    attend, flush = kept
    assert (attend.case, attend.scope, flush.case, flush.scope) == (
        *("decode-66@csa.attend", "attend"),
        *("decode-66@flush", "flush"),
    )
    assert attend.repeats == flush.repeats == (1, PER_GRAPH)
    np.testing.assert_allclose(attend.seconds[0], [[5e-6], [PER_GRAPH * (FLUSH + 7e-6)]])
    np.testing.assert_allclose(flush.seconds[0], [[0.0], [PER_GRAPH * FLUSH]])
    work = (attend.seconds - flush.seconds)[:, 1, 0] / PER_GRAPH
    np.testing.assert_allclose(work, apart.parts[0].seconds[:, 1], err_msg="what is held follows from what is kept")


def test_launches_in_a_graph_and_outside_have_limits_of_their_own(machine):
    ingest = [machine.timed(Place(kind, "ingest", None), ["a"], 9e-6, 9e-6, graphed=on) for kind, on in
              (("csa", [1]), ("hca", []))]  # fmt: skip
    machine.parts = [*ingest, machine.timed(None, ["flush"], graphed=[1])]
    roof = replace(ROOF, copy_bytes_per_second=1e18, launch=3e-6, graph_launch=1e-6)
    apart = taken(machine)
    assert [part.graphed.tolist() for part in apart.parts] == [[False, True], [False, False]]
    [found] = breakdowns(apart, whole(a=(1e-4, 1.0, 1e-4)), roof, RULE, ["a"])
    assert found.graphed and found.stages[0].bound_by == "launch"
    between = replace(roof, copy_bytes_per_second=found.stages[0].bytes / 4.5e-6)  # launches: (3 + 1) / 2 + 3 = 5 us
    assert breakdowns(apart, whole(a=(1e-4, 1.0, 1e-4)), between, RULE, ["a"])[0].stages[0].bound_by == "launch"
    slower = replace(roof, copy_bytes_per_second=found.stages[0].bytes / 5.5e-6)
    assert breakdowns(apart, whole(a=(1e-4, 1.0, 1e-4)), slower, RULE, ["a"])[0].stages[0].bound_by == "bytes"


def test_void_rounds_are_kept_and_do_not_count(machine):
    faults = iter(["", "throttled", *[""] * 40])
    watch = Watch(cpu=lambda: CpuReading(None, None), faults=[lambda: next(faults)])
    machine.parts = [machine.timed(Place("csa", "attend", None), ["a"], 5e-6, 7e-6)]
    kept = []
    apart = taken(machine, kept, beside=Instruments(watch))
    [attend] = kept
    assert len(attend.seconds) == len(attend.void) == 21 and attend.void[:2] == ("throttled", "")
    assert attend.counts.tolist() == [False, *[True] * 20] and len(apart.parts[0].seconds) == 20
    assert watch.machine().blocks == 0, "stages are no blocks of a case"


def test_what_a_part_compiles_is_that_of_its_arm(machine):
    beside, arms = Instruments(), []
    machine.parts = [
        machine.timed(Place("csa", "attend", None), [arm], 5e-6, 7e-6, implementation=arm) for arm in ("a", "b")
    ]
    for part in machine.parts:
        step = part.step
        part.step = lambda number, part=part, step=step: (arms.append((part.name, beside.compiling.arm)), step(number))
    taken(machine, beside=beside)
    assert set(arms) == {("a", "a"), ("b", "b")}


def test_raw_samples_are_kept_under_names_that_no_case_has(machine):
    machine.parts = [
        machine.timed(Place("csa", "select", None), ["a", "c"], 5e-6, 7e-6, layers=21.0),
        machine.timed(Place("csa", "select", None), ["b"], 4e-6, 6e-6, layers=21.0),
        machine.timed(Place("csa", "score", "select"), ["a", "c"], 0, 3e-6),
    ]
    kept = []
    taken(machine, kept)
    whole_select, score = kept
    assert (whole_select.case, score.case) == ("decode-66@csa.select", "decode-66@csa.select.score")
    assert whole_select.arms == ("a", "b") and whole_select.mode == "graph"
    rounds = len(whole_select.seconds)
    np.testing.assert_allclose(whole_select.seconds, [[[5e-6, 4e-6], [7e-6, 6e-6]]] * rounds)
    np.testing.assert_allclose(score.seconds, [[[0.0], [3e-6]]] * rounds)
    assert whole_select.order.shape == whole_select.seconds.shape
    assert whole_select.rows.tolist() == [4, 4]


def test_five_rounds_are_made_whatever_the_budget(machine, monkeypatch):
    ticks = iter(range(0, 10_000, 100))
    monkeypatch.setattr("pipeline.evidence.timing.measure.time.monotonic", lambda: next(ticks))
    machine.parts = [machine.timed(Place("csa", "attend", None), ["a"], 5e-6, 7e-6)]
    assert len(taken(machine).parts[0].seconds) == 5


def test_arms_that_do_a_task_differently_have_one_limit(machine):
    place = Place("csa", "select", None)
    machine.parts = [machine.timed(place, [arm], 1e-6, 1e-6, implementation=arm) for arm in ("never", "skip")]
    for part in taken(machine).parts:
        assert part.bytes.tolist() == [4 * 512 * 4] * 2 and part.flops.tolist() == [0, 0]
    never, skip = taken(machine, case=LONG).parts
    assert never.bytes.tolist() == skip.bytes.tolist() and (never.flops == skip.flops).all() and never.flops.all()
