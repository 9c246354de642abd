"""The sentence: build, check, measure, summarise, record; one case of the experiment after the other."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pipeline.door.stages import CONTROL, arm_stages, stages
from pipeline.engine.arms.bench import Arms
from pipeline.engine.device import hardware, resolved
from pipeline.engine.stack import blueprint, described
from pipeline.evidence.attempt import Listeners
from pipeline.evidence.attribution import attributed
from pipeline.evidence.conclude import conclude
from pipeline.evidence.examine import Examined, examine
from pipeline.evidence.figures.compare import Roles, rule_for
from pipeline.evidence.figures.family import family
from pipeline.evidence.figures.headline import headline
from pipeline.evidence.figures.overall import overall
from pipeline.evidence.figures.shifted import shifted
from pipeline.evidence.stats import Rule
from pipeline.evidence.summarise import decided, experiment, summarise
from pipeline.evidence.summary import CaseSummary
from pipeline.evidence.timing.instruments import Instruments, instruments
from pipeline.evidence.timing.modes import Trial, in_modes
from pipeline.results import terminal
from pipeline.results.folder.provenance import Gpu, capture
from pipeline.results.folder.record import Outcome, Run, failure, open_run, write_samples, write_summary
from pipeline.results.folder.status import closing, write_status
from pipeline.results.report import write_report
from pipeline.results.tracking import reach_tracker, tracked
from pipeline.schema import Config, ConfigError
from pipeline.work.brought import brought
from pipeline.work.workload import Case, cases


def run(config: Config, overrides: Sequence[str] = ()) -> Outcome:
    """ConfigError where the input is bad, before anything is written. What fails later leaves its folder behind."""
    config = replace(config, engine=resolved(config.engine))
    built, known, machine = _build(config), brought(config), hardware(config.engine.device)
    reach_tracker(config)
    record = open_run(config, capture(machine.gpu and Gpu(machine.gpu, machine.driver), overrides))
    stack = built.arms.stack
    with closing(record.folder), instruments(stack.device, config.measure.compile_anew) as beside:
        print(
            f"{config.name}: {len(built.cases)} cases x {len(built.arms.stages)} arms, "
            f"layers {described(config.model, config.engine)} of {config.model.name} on {config.engine.device}, "
            f"writing to {record.folder}",
            flush=True,
        )
        found, taken = _check_and_measure(built, record, beside)
        found = shifted(found, built.roles.control)
        means = overall(found, built.roles, built.rule)
        told = headline(found, built.roles.baseline, built.roles.control, means)
        summary = experiment(config, found, built.roles, built.rule, told, means)
        for section in (
            beside.added,
            lambda so_far: attributed(so_far, taken, stack, config, built.rule),
            lambda so_far: conclude(so_far, config, machine.gpu, known),
        ):
            summary = section(summary)
            write_summary(record, summary)  # a section that fails costs nothing of those before it
        write_report(summary, config, record.provenance, record.folder)
        terminal.show(summary, config, record.folder)
        failed = failure(summary)
        if failed:
            write_status(record.folder, "failed", failed)
    return Outcome(record.folder, not tracked(record, summary) or bool(failed))


@dataclass(frozen=True)
class _Built:
    """What an experiment measures, and how that is judged."""

    cases: list[Case]
    trials: list[Trial]
    arms: Arms
    roles: Roles
    rule: Rule


def _build(config: Config) -> _Built:
    """Of a config whose engine is resolved."""
    own, reference = arm_stages(config), stages(config.reference, "reference")
    drawn = cases(config.workloads, config.model, config.seed)
    arms = Arms(blueprint(config, max(case.context for case in drawn)), own, reference)
    trials = list(in_modes(drawn, config))
    rule = rule_for(config, family([(trial.case, trial.mode) for trial in trials], config.measure.scope))
    roles = Roles(next(iter(config.arms)), CONTROL if config.measure.control else None)
    return _Built(drawn, trials, arms, roles, rule)


def _check_and_measure(built: _Built, record: Run, beside: Instruments) -> tuple[list[CaseSummary], list[Examined]]:
    """Case by case, those in which an arm calls what is timed; at least one."""
    scope, found, taken = record.config.measure.scope, [], []
    with terminal.progress() as advance:
        for trial in built.trials:
            case, steps = trial.case, trial.steps
            enough = partial(decided, case, steps, built.roles, built.rule)
            listeners = Listeners(partial(write_samples, record), partial(advance, case.name), enough)
            examined = examine(trial, built.arms, listeners, beside)
            if examined is None:
                print(f"{case.name} is left out: no arm calls {scope} in it", file=sys.stderr)
                continue
            found.append(summarise(case, steps, examined.samples, examined.checks, built.rule, built.roles.control))
            taken.append(examined)
    if not found:
        raise ConfigError([f"measure.scope={scope}: no arm calls this stage in any case"])
    return found, taken
