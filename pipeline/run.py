"""The sentence: build, check, measure, summarise, record; one case of the experiment after the other."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pipeline.door.stages import stages
from pipeline.engine.device import Hardware, hardware, resolved
from pipeline.engine.layer import Stages
from pipeline.engine.stack import blueprint, described
from pipeline.evidence.attribution import attributed
from pipeline.evidence.conclude import conclude
from pipeline.evidence.examine import examine
from pipeline.evidence.figures.compare import Roles, rule_for
from pipeline.evidence.figures.family import family
from pipeline.evidence.figures.headline import headline
from pipeline.evidence.figures.overall import overall
from pipeline.evidence.figures.shifted import shifted
from pipeline.evidence.summarise import decided, experiment, summarise
from pipeline.evidence.summary import Summary
from pipeline.evidence.timing.instruments import instruments
from pipeline.evidence.timing.modes import in_modes
from pipeline.results import terminal
from pipeline.results.folder.provenance import Gpu, capture
from pipeline.results.folder.record import Run, failure, open_run, write_samples, write_summary
from pipeline.results.folder.status import closing, write_status
from pipeline.results.report import write_report
from pipeline.schema import Config, ConfigError
from pipeline.work.brought import brought
from pipeline.work.schedule import schedule
from pipeline.work.workload import cases

CONTROL = "control"


@dataclass(frozen=True)
class Outcome:
    folder: Path
    failed: bool


def run(config: Config, overrides: Sequence[str] = ()) -> Outcome:
    """ConfigError where the input is bad, before anything is written. What fails later leaves its folder behind."""
    config = replace(config, engine=resolved(config.engine))
    engine, machine = config.engine, hardware(config.engine.device)
    arms, reference = _arms(config), stages(config.reference, "reference")
    drawn = cases(config.workloads, config.model, config.seed)
    stack = blueprint(config, max(case.context for case in drawn))
    runs = list(in_modes(drawn, config))
    rule = rule_for(config, family([(case, mode) for case, _, mode in runs], config.measure.scope))
    control = CONTROL if config.measure.control else None
    roles = Roles(next(iter(config.arms)), control)
    known = brought(config)
    reach_tracker(config)
    record = opened(config, machine, overrides)
    with closing(record.folder), instruments(stack.device, config.measure.compile_anew) as beside:
        found, taken = [], []
        print(
            f"{config.name}: {len(drawn)} cases x {len(arms)} arms, layers {described(config.model, engine)} of "
            f"{config.model.name} on {engine.device}, writing to {record.folder}",
            flush=True,
        )
        with terminal.progress() as advance:
            for case, asked, mode in runs:
                steps = schedule(
                    case.requests, engine.max_num_seqs, engine.max_num_batched_tokens, engine.chunked_prefill
                )
                keep, progress = partial(write_samples, record), partial(advance, case.name)
                enough = partial(decided, case, steps, roles, rule)
                examined = examine(asked, case, steps, stack, arms, reference, keep, progress, mode, enough, beside)
                if examined is None:
                    print(f"{case.name} is left out: no arm calls {config.measure.scope} in it", file=sys.stderr)
                    continue
                found.append(summarise(case, steps, examined.samples, examined.checks, rule, control))
                taken.append(examined)
        if not found:
            raise ConfigError([f"measure.scope={config.measure.scope}: no arm calls this stage in any case"])
        found = shifted(found, control)
        means = overall(found, roles, rule)
        summary = experiment(config, found, roles, rule, headline(found, roles.baseline, roles.control, means), means)
        summary = beside.added(summary)
        write_summary(record, summary)
        summary = attributed(summary, taken, stack, config, rule)
        write_summary(record, summary)
        summary = conclude(summary, config, machine.gpu, known)
        write_summary(record, summary)
        write_report(summary, config, record.provenance, record.folder)
        terminal.show(summary, config, record.folder)
        failed = failure(summary)
        if failed:
            write_status(record.folder, "failed", failed)
    return Outcome(record.folder, not tracked(record, summary) or bool(failed))


def opened(config: Config, machine: Hardware, overrides: Sequence[str]) -> Run:
    try:
        return open_run(config, capture(Gpu(machine.gpu, machine.driver) if machine.gpu else None, overrides))
    except OSError as error:
        raise ConfigError(
            [f"output_dir={config.output_dir}: no folder can be made there for {config.name}: {error}"]
        ) from error


def _arms(config: Config) -> dict[str, Stages]:
    """Every arm's stages, and the baseline's again as the control."""
    made = {name: stages(variant, f"arms.{name}") for name, variant in config.arms.items()}
    if not config.measure.control:
        return made
    baseline = next(iter(config.arms.values()))
    return made | {CONTROL: stages(baseline, CONTROL)}


def reach_tracker(config: Config) -> None:
    """ConfigError from a store that cannot take the study."""
    if not config.track.enabled:
        return
    from pipeline.results.track import TrackError, prepare  # imports mlflow

    try:
        prepare(config)
    except TrackError as error:
        raise ConfigError([f"track.uri: {error}"]) from error


def tracked(record: Run, summary: Summary) -> bool:
    if not record.config.track.enabled:
        return True
    from pipeline.results.track import TrackError, track  # imports mlflow

    try:
        entry = track(record.folder, record.config, record.provenance, summary)
    except TrackError as error:
        print(error, file=sys.stderr)
        return False
    print(f"mlflow   make ui, then http://127.0.0.1:5000/{entry.page}")
    return True
