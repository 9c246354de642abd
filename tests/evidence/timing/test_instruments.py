"""What is read beside the clock, on its way into samples and summary."""

from dataclasses import replace
from itertools import chain, repeat

import pytest
import torch

from pipeline.door.stages import stages
from pipeline.engine.arms.bench import Arms
from pipeline.engine.stack import blueprint
from pipeline.evidence.attempt import Listeners
from pipeline.evidence.examine import examine
from pipeline.evidence.figures.compare import rule_for
from pipeline.evidence.summarise import summarise
from pipeline.evidence.timing.instruments import Instruments, instruments
from pipeline.evidence.timing.modes import Trial
from pipeline.evidence.timing.nvml import GpuReading
from pipeline.evidence.timing.watch import CpuReading, Watch
from pipeline.work.workload import Case, Request
from tests.compose import config

COOL = GpuReading(1500.0, 3201.0, 40, 300.0, (), "")
HOT = replace(COOL, sm_clock_mhz=900.0, throttled_by=("power cap",))


def examined(*readings: GpuReading):
    """Four rounds, a block each, and what followed from the readings; the last one goes on."""
    made = config("+exp=short_ctx", "model=tiny", "engine.device=cpu", "measure=default", "measure.control=false")
    measure = replace(made.measure, rounds=4, block_rounds=1, warmup_rounds=0, breakdown=False)
    made = replace(made, measure=measure, engine=replace(made.engine, dtype="fp32"))
    requests = (Request(0.0, 8, 9, 3),)
    case = Case("mine", "mine", 11, requests, "digest")
    trial = Trial(case, made)
    arms = Arms(
        blueprint(made, 11), {name: stages(made.arms[name]) for name in ("never", "row")}, stages(made.reference)
    )
    told = chain(readings, repeat(readings[-1]))
    beside = Instruments(Watch(lambda: next(told), lambda: CpuReading(0.1, None), cores=2))
    found = examine(trial, arms, Listeners(), beside)
    return found.samples, summarise(case, trial.steps, found.samples, found.checks, rule_for(made, 1), None), beside


def test_a_throttled_block_is_made_again_and_the_case_is_told_in_cycles():
    samples, summary, beside = examined(COOL, COOL, HOT, COOL)
    reason = "the device was throttled by power cap"
    assert samples.void == ("", reason, reason, "", "", "") and summary.rounds == 4
    assert samples.clock_mhz == summary.clock_mhz == 1500.0
    for arm in summary.arms.values():
        assert arm.metrics["mean_tpot_cycles"] == pytest.approx(arm.metrics["mean_tpot_ms"] * 1e3 * 1500)
    machine = beside.watch.machine()
    assert (machine.blocks, machine.void_blocks, machine.throttled_by) == (6, 2, ("power cap",))
    assert summary.void == ""
    assert machine.sm_clock_mhz == (900.0, 1500.0)


@pytest.mark.parametrize(
    ("reason", "void"),
    [("power cap", ""), ("temperature (software)", "0 of 8; the device was throttled by temperature (software)")],
)
def test_a_device_that_is_always_throttled_still_gives_figures_that_say_so(reason, void):
    """What keeps it at the power cap is the load itself."""
    samples, summary, beside = examined(replace(HOT, throttled_by=(reason,)))
    assert len(samples.void) == (8 if void else 4) == summary.rounds and all(samples.void)
    assert summary.void == void
    assert "mean_tpot_ms" in summary.arms["row"].metrics
    assert any(f"throttled by {reason}" in warning for warning in beside.watch.machine().warnings)


def test_a_device_that_is_hardly_ever_free_of_it_is_timed_as_it_is():
    samples, summary, _ = examined(COOL, COOL, replace(HOT, throttled_by=("temperature (software)",)))
    assert samples.void.count("") == 1 and samples.least_sound == 4
    assert summary.rounds == 8 and summary.void == "1 of 8; the device was throttled by temperature (software)"


def test_without_a_device_there_are_no_cycles():
    _, summary, _ = examined(replace(COOL, sm_clock_mhz=None))
    assert summary.clock_mhz is None and not any("cycles" in key for key in summary.arms["row"].metrics)


def test_a_cpu_has_no_kernels_to_compile():
    with instruments(torch.device("cpu"), compile_anew=True) as beside:
        assert not beside.compiling.listens and beside.watch.gpu is None and not beside.watch.unwatched


def test_a_case_without_a_sound_arm_saves_nothing():
    samples, _, beside = examined(COOL)
    beside.compiling.note(replace(samples, arms=(), seconds=samples.seconds[:0, :, :0], void=()))
    assert list(beside.compiling._steps["mine"]) == ["never", "row"]
