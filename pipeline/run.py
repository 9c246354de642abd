"""The sentence: build, check, measure, summarise, record; one case of the experiment after the other."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pipeline.door.stages import stages
from pipeline.engine.device import hardware, resolved
from pipeline.engine.layer import Stages
from pipeline.engine.stack import blueprint, described
from pipeline.evidence.examine import examine
from pipeline.evidence.headline import headline
from pipeline.evidence.metrics import PERCENTILE_METHOD
from pipeline.evidence.stats import INTERVAL_METHOD, Rule
from pipeline.evidence.summarise import MINIMUM_SAMPLES, summarise
from pipeline.evidence.summary import CaseSummary, Summary
from pipeline.results import terminal
from pipeline.results.files import write_text
from pipeline.results.plots import draw_plots
from pipeline.results.provenance import Gpu, capture
from pipeline.results.record import Run, failed_arms, open_run, write_samples, write_summary
from pipeline.results.report import report
from pipeline.results.status import closing, write_status
from pipeline.schema import Config, ConfigError
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
    rule = Rule(config.measure.margin, config.measure.confidence, config.measure.resamples, config.seed)
    control = CONTROL if config.measure.control else None
    _reach_tracker(config)
    try:
        record = open_run(config, capture(Gpu(machine.gpu, machine.driver) if machine.gpu else None, overrides))
    except OSError as error:
        raise ConfigError(
            [f"output_dir={config.output_dir}: no folder can be made there for {config.name}: {error}"]
        ) from error
    with closing(record.folder):
        found = []
        print(
            f"{config.name}: {len(drawn)} cases x {len(arms)} arms, layers {described(config.model, engine)} of "
            f"{config.model.name} on {engine.device}, writing to {record.folder}",
            flush=True,
        )
        with terminal.progress() as advance:
            for case in drawn:
                steps = schedule(
                    case.requests, engine.max_num_seqs, engine.max_num_batched_tokens, engine.chunked_prefill
                )
                keep, progress = partial(write_samples, record), partial(advance, case.name)
                examined = examine(config, case, steps, stack, arms, reference, keep, progress)
                if examined is None:
                    print(f"{case.name} is left out: no arm calls {config.measure.scope} in it", file=sys.stderr)
                    continue
                found.append(summarise(case, steps, examined.samples, examined.checks, rule, control))
        if not found:
            raise ConfigError([f"measure.scope={config.measure.scope}: no arm calls this stage in any case"])
        summary = _summary(config, found, control)
        write_summary(record, summary)
        plots = draw_plots(summary, config, record.folder)
        write_text(record.folder / "report.md", report(summary, config, record.provenance, record.folder, plots))
        terminal.show(summary, config, record.folder)
        failed = failed_arms(summary)
        if failed:
            write_status(record.folder, "failed", f"arms that failed their check: {', '.join(failed)}")
    return Outcome(record.folder, not _tracked(record, summary) or bool(failed))


def _arms(config: Config) -> dict[str, Stages]:
    """Every arm's stages, and the baseline's again as the control."""
    made = {name: stages(variant, f"arms.{name}") for name, variant in config.arms.items()}
    if not config.measure.control:
        return made
    baseline = next(iter(config.arms.values()))
    return made | {CONTROL: stages(baseline, CONTROL)}


def _summary(config: Config, found: list[CaseSummary], control: str | None) -> Summary:
    baseline = next(iter(config.arms))
    return Summary(
        cases=tuple(found),
        baseline=baseline,
        control=control,
        scope=config.measure.scope,
        layers=described(config.model, config.engine),
        tp=config.engine.tp,
        percentile_method=PERCENTILE_METHOD,
        interval_method=INTERVAL_METHOD,
        minimum_samples=MINIMUM_SAMPLES,
        headline=headline(found, baseline, control),
    )


def _reach_tracker(config: Config) -> None:
    """ConfigError from a store that cannot take the study."""
    if not config.track.enabled:
        return
    from pipeline.results.track import TrackError, prepare  # imports mlflow

    try:
        prepare(config)
    except TrackError as error:
        raise ConfigError([f"track.uri: {error}"]) from error


def _tracked(record: Run, summary: Summary) -> bool:
    if not record.config.track.enabled:
        return True
    from pipeline.results.track import TrackError, track  # imports mlflow

    try:
        tracked = track(record.folder, record.config, record.provenance, summary)
    except TrackError as error:
        print(error, file=sys.stderr)
        return False
    print(f"mlflow   make ui, then http://127.0.0.1:5000/{tracked.page}")
    return True
