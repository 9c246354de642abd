"""The instrument tried on itself: the first arm against itself, with delays of known length put behind a stage."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from pipeline.door.selftest import SAME, delay_name
from pipeline.door.stages import CONTROL, stages
from pipeline.engine.arms.bench import Arms
from pipeline.engine.arms.delay import Delayed, waiting
from pipeline.engine.device import hardware, resolved
from pipeline.engine.layer import Stages
from pipeline.engine.stack import blueprint
from pipeline.evidence.attempt import Listeners
from pipeline.evidence.examine import Examined, examine
from pipeline.evidence.figures.compare import Roles, rule_for
from pipeline.evidence.figures.family import family
from pipeline.evidence.findings import Findings
from pipeline.evidence.selftest.alone import cycles_per_second, seconds_alone
from pipeline.evidence.selftest.detect import Delay, assess, detect, sentence
from pipeline.evidence.summarise import experiment, summarise
from pipeline.evidence.timing.instruments import Instruments, instruments
from pipeline.evidence.timing.modes import Trial
from pipeline.results import terminal
from pipeline.results.folder.files import write_json
from pipeline.results.folder.provenance import Gpu, capture
from pipeline.results.folder.record import Outcome, open_run, write_samples, write_summary
from pipeline.results.folder.status import closing, write_status
from pipeline.results.report import write_report
from pipeline.results.report.selftest import shown
from pipeline.results.tracking import reach_tracker, tracked
from pipeline.schema import Config
from pipeline.work.workload import cases

FIRST_LOOK = 100  # rounds of all arms, which tell how long a step is where so many take turns


def self_test(config: Config, overrides: Sequence[str] = ()) -> Outcome:
    """Of a config that the door has judged. Failed where a bar is missed."""
    config = replace(config, engine=resolved(config.engine))
    asked, machine = config.self_test, hardware(config.engine.device)
    [(baseline, variant), *_] = config.arms.items()
    own, reference = stages(variant, f"arms.{baseline}"), stages(config.reference, "reference")
    [case] = cases(config.workloads, config.model, config.seed)
    stack, trial = blueprint(config, case.context), Trial(case, config)
    reach_tracker(config)
    record = open_run(config, capture(machine.gpu and Gpu(machine.gpu, machine.driver), overrides))
    with closing(record.folder), instruments(stack.device, config.measure.compile_anew) as beside:
        print(f"{config.name}: {asked.runs} runs of {config.measure.rounds} rounds, writing to {record.folder}")
        with terminal.progress() as advance:
            cycles = cycles_per_second(stack.device)
            nothing = waiting(0, cycles)
            names = [baseline, CONTROL, SAME, *map(delay_name, asked.delays)]
            undelayed = Arms(stack, {name: _delayed(own, asked.stage, nothing) for name in names}, reference)
            progress = partial(advance, f"{case.name}, how long a step is")
            first = _look(trial, undelayed, FIRST_LOOK, Listeners(on_progress=progress))
            step = float(first.samples.seconds[first.samples.counts].mean())  # the metric is a mean too
            calls = len(stack.kinds)  # of the stage, in a step
            waits = [nothing, *(waiting(share * step / calls, cycles) for share in asked.delays)]
            before = seconds_alone(waits, stack.device)
            every = zip(names, [nothing, nothing, *waits], strict=True)
            arms = Arms(stack, {name: _delayed(own, asked.stage, wait) for name, wait in every}, reference)
            progress = partial(advance, f"{case.name}, {len(arms.stages)} arms")
            listeners = Listeners(partial(write_samples, record), progress)
            examined = _look(trial, arms, asked.runs * config.measure.rounds, listeners, beside)
            alone = np.mean([before, seconds_alone(waits, stack.device)], axis=0) * calls
        shares = [0.0, *asked.delays]
        delays = [Delay(*each) for each in zip(names[2:], shares, (alone - alone[0]).tolist(), strict=True)]
        write_json(record.folder / "delays.json", [asdict(delay) for delay in delays])
        samples, checks, rule = examined.samples, examined.checks, rule_for(config, family([(case, "")], "stack"))
        found = detect(case, trial.steps, samples, rule, CONTROL, delays, config.measure.rounds)
        tested = assess(case.name, asked.stage, step, config.measure.rounds, asked.must_find, found)
        whole = summarise(case, trial.steps, samples, checks, replace(rule, planned_blocks=None), CONTROL)
        roles, findings = Roles(baseline, CONTROL), Findings(self_test=tested)
        summary = beside.added(experiment(config, [whole], roles, rule, sentence(tested), findings=findings))
        write_summary(record, summary)
        write_report(summary, config, record.provenance, record.folder)
        told = "\n".join(summary.headline)
        print(f"{shown(tested)}\n\n{told}\n\nreport   {record.folder / 'report.md'}")
        if not tested.passed:
            write_status(record.folder, "failed", "; ".join(summary.headline))
    return Outcome(record.folder, not tracked(record, summary) or not tested.passed)


def _look(trial: Trial, arms: Arms, rounds: int, listeners: Listeners, beside: Instruments | None = None) -> Examined:
    """A recording of so many rounds that nothing ends early."""
    measure = replace(trial.config.measure, rounds=rounds, seconds=None, stop="budget", breakdown=False)
    whole = replace(trial, config=replace(trial.config, measure=measure))
    examined = examine(whole, arms, listeners, beside)
    failed = [check.detail for check in examined.checks.values() if not check.passed]
    if failed:
        raise RuntimeError(f"the baseline fails its check, so nothing can be tested with it: {failed[0]}")
    return examined


def _delayed(own: Stages, stage: str, wait: Callable[[], None]) -> Stages:
    return replace(own, **{stage: Delayed(getattr(own, stage), wait)})
