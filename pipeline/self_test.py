"""The instrument tried on itself: the first arm against itself, with delays of known length put behind a stage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from pipeline.door.selftest import SAME, delay_name
from pipeline.door.stages import stages
from pipeline.engine.arms.delay import Delayed, waiting
from pipeline.engine.device import hardware, resolved
from pipeline.engine.layer import Stages
from pipeline.engine.stack import Blueprint, blueprint
from pipeline.evidence.examine import Examined, examine
from pipeline.evidence.figures.compare import Roles, rule_for
from pipeline.evidence.figures.family import family
from pipeline.evidence.findings import Findings
from pipeline.evidence.samples import Samples
from pipeline.evidence.selftest.alone import cycles_per_second, seconds_alone
from pipeline.evidence.selftest.detect import Delay, assess, detect, sentence
from pipeline.evidence.summarise import experiment, summarise
from pipeline.evidence.timing.instruments import Instruments, instruments
from pipeline.results import terminal
from pipeline.results.folder.files import write_json
from pipeline.results.folder.record import write_samples, write_summary
from pipeline.results.folder.status import closing, write_status
from pipeline.results.report import write_report
from pipeline.results.report.selftest import shown
from pipeline.run import CONTROL, Outcome, opened, reach_tracker, tracked
from pipeline.schema import Config
from pipeline.work.schedule import Step, schedule
from pipeline.work.workload import Case, cases

FIRST_LOOK = 20  # rounds that tell how long a step is


def self_test(config: Config, overrides: Sequence[str] = ()) -> Outcome:
    """Of a config that the door has judged. Failed where a bar is missed."""
    config = replace(config, engine=resolved(config.engine))
    engine, asked = config.engine, config.self_test
    [(baseline, variant), *_] = config.arms.items()
    own, reference = stages(variant, f"arms.{baseline}"), stages(config.reference, "reference")
    drawn = cases(config.workloads, config.model, config.seed)
    [case] = drawn
    stack = blueprint(config, case.context)
    steps = schedule(case.requests, engine.max_num_seqs, engine.max_num_batched_tokens, engine.chunked_prefill)
    reach_tracker(config)
    record = opened(config, hardware(engine.device), overrides)
    with closing(record.folder), instruments(stack.device, config.measure.compile_anew) as beside:
        print(f"{config.name}: {asked.runs} runs of {config.measure.rounds} rounds, writing to {record.folder}")
        with terminal.progress() as advance:
            look = partial(_look, config, case, steps, stack, reference)
            cycles = cycles_per_second(stack.device)
            nothing = waiting(0, cycles)
            first = look({baseline: _delayed(own, asked.stage, nothing)}, FIRST_LOOK, on_progress=advance)
            step = float(np.median(first.samples.seconds))
            calls = len(stack.kinds)  # of the stage, in a step
            waits = [nothing, *(waiting(share * step / calls, cycles) for share in asked.delays)]
            before = seconds_alone(waits, stack.device)
            names = [SAME, *map(delay_name, asked.delays)]
            arms = dict(zip([baseline, CONTROL, *names], [nothing, nothing, *waits], strict=True))
            arms = {name: _delayed(own, asked.stage, wait) for name, wait in arms.items()}
            keep = partial(write_samples, record)
            examined = look(arms, asked.runs * config.measure.rounds, beside=beside, keep=keep, on_progress=advance)
            alone = np.mean([before, seconds_alone(waits, stack.device)], axis=0) * calls
        shares = [0.0, *asked.delays]
        delays = [Delay(*each) for each in zip(names, shares, (alone - alone[0]).tolist(), strict=True)]
        write_json(record.folder / "delays.json", [asdict(delay) for delay in delays])
        samples, checks, rule = examined.samples, examined.checks, rule_for(config, family([(case, "")], "stack"))
        found = detect(case, steps, samples, rule, CONTROL, delays, config.measure.rounds)
        tested = assess(case.name, asked.stage, step, config.measure.rounds, asked.must_find, found)
        whole = summarise(case, steps, samples, checks, replace(rule, planned_blocks=None), CONTROL)
        roles, findings = Roles(baseline, CONTROL), Findings(self_test=tested)
        summary = beside.added(experiment(config, [whole], roles, rule, sentence(tested), findings=findings))
        write_summary(record, summary)
        write_report(summary, config, record.provenance, record.folder)
        told = "\n".join(summary.headline)
        print(f"{shown(tested)}\n\n{told}\n\nreport   {record.folder / 'report.md'}")
        if not tested.passed:
            write_status(record.folder, "failed", "; ".join(summary.headline))
    return Outcome(record.folder, not tracked(record, summary) or not tested.passed)


def _look(
    config: Config,
    case: Case,
    steps: Sequence[Step],
    stack: Blueprint,
    reference: Stages,
    arms: Mapping[str, Stages],
    rounds: int,
    *,
    on_progress: terminal.OnProgress,
    keep: Callable[[Samples], None] = lambda _: None,
    beside: Instruments | None = None,
) -> Examined:
    """A recording of so many rounds that nothing ends early."""
    measure = replace(config.measure, rounds=rounds, seconds=None, stop="budget", breakdown=False)
    whole, progress = replace(config, measure=measure), partial(on_progress, f"{case.name}, {len(arms)} arms")
    examined = examine(whole, case, steps, stack, arms, reference, keep, progress, beside=beside)
    failed = [check.detail for check in examined.checks.values() if not check.passed]
    if failed:
        raise RuntimeError(f"the baseline fails its check, so nothing can be tested with it: {failed[0]}")
    return examined


def _delayed(own: Stages, stage: str, wait: Callable[[], None]) -> Stages:
    return replace(own, **{stage: Delayed(getattr(own, stage), wait)})
