"""The composed YAML -> Config, or every fault in it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hydra.utils import to_absolute_path
from omegaconf import DictConfig, OmegaConf
from pydantic import TypeAdapter

from pipeline.door import questions, rules, selftest
from pipeline.door.draft import Draft, draft
from pipeline.fields import Name
from pipeline.questions import Claim, Gate, Projection, Traffic
from pipeline.schema import Config, ConfigError, Engine, Measure, Model, Seed, SelfTest, Track, Variant, Workload
from pipeline.work.workload import cases

SQLITE = "sqlite:///"
RESERVED = {"control", "noise"}  # what results and tables call the control


def from_yaml(composed: DictConfig) -> Config:
    """ConfigError with all faults."""
    lines = list(faults(composed))
    if lines:
        raise ConfigError(lines)
    return sound(composed)


def sound(composed: DictConfig) -> Config:
    """Of what has no faults. Relative paths count from the folder where the command was given."""
    config = TypeAdapter(Config).validate_python(OmegaConf.to_container(composed, resolve=True))
    return replace(
        config,
        output_dir=to_absolute_path(config.output_dir),
        engine=replace(config.engine, weights=config.engine.weights and to_absolute_path(config.engine.weights)),
        track=replace(config.track, uri=config.track.uri and _absolute_uri(config.track.uri)),
        traffic={
            name: replace(one, trace=one.trace and to_absolute_path(one.trace)) for name, one in config.traffic.items()
        },
        projection=config.projection
        and replace(config.projection, benchmark=to_absolute_path(config.projection.benchmark)),
    )


def faults(composed: DictConfig) -> Iterator[str]:
    """One line each, in the order of what it costs to find them: the last ones import torch and the kernels."""
    found = draft(composed)
    yield from found.lines
    model, engine = found.sound(Model, "model"), found.sound(Engine, "engine")
    measure = found.sound(Measure, "measure")
    yield from rules.experiment(model, engine, measure)
    yield from rules.one_stage(found.entries(Variant, "arms"), measure) if measure else ()
    yield from _work_faults(found, model, engine)
    if found.data.get("self_test") is None:
        yield from _question_faults(found, engine)
    else:
        yield from _self_test_faults(found, model, engine, measure)
    yield from rules.name(found.sound(Name, "name"))
    yield from _track_faults(found.sound(Track, "track"))
    yield from _weights_faults(model, engine)
    yield from _kernel_faults(found, model, engine)
    yield from _scope_faults(found, model, engine, measure)


def _work_faults(found: Draft, model: Model | None, engine: Engine | None) -> Iterator[str]:
    seed = found.sound(Seed, "seed")
    for name, workload in found.entries(Workload, "workloads").items():
        broken = list(rules.workload(f"workloads.{name}", workload, model))
        yield from broken
        if broken or model is None or seed is None:
            continue
        try:
            drawn = cases({name: workload}, model, seed)
        except ConfigError as error:
            yield from error.lines
        else:
            yield from rules.unchunked(drawn, engine) if engine else ()


def _question_faults(found: Draft, engine: Engine | None) -> Iterator[str]:
    held = found.data.get("arms")
    arms = list(held) if isinstance(held, dict) else []
    if claim := found.sound(Claim | None, "claim"):
        yield from questions.claim(claim, arms)
    for name, traffic in found.entries(Traffic, "traffic").items():
        yield from questions.traffic(f"traffic.{name}", traffic)
    if projection := found.sound(Projection | None, "projection"):
        yield from questions.projection(projection, engine)
    if gate := found.sound(Gate, "gate"):
        yield from questions.gate(gate, arms)


def _self_test_faults(
    found: Draft, model: Model | None, engine: Engine | None, measure: Measure | None
) -> Iterator[str]:
    asked = found.sound(SelfTest | None, "self_test")
    if asked is None:
        return  # told by the schema
    yield from selftest.self_test(asked)
    yield from selftest.beside(found.data)
    yield from selftest.overlapped(asked, found.entries(Variant, "arms"))
    if engine and measure:
        yield from selftest.measured(measure, engine)
    seed, workloads = found.sound(Seed, "seed"), found.entries(Workload, "workloads")
    broken = [line for name, one in workloads.items() for line in rules.workload(name, one, model)]
    if model and seed is not None and not broken:
        try:
            yield from selftest.counted(cases(workloads, model, seed))
        except ConfigError:
            return  # told by others


def _track_faults(track: Track | None) -> Iterator[str]:
    if track and track.uri is not None and not track.uri.startswith(SQLITE):
        yield (
            f"track.uri={track.uri}: other trackers are not supported; allowed: {SQLITE}FILE, or null for mlflow.db in "
            "output_dir"
        )


def _weights_faults(model: Model | None, engine: Engine | None) -> Iterator[str]:
    if engine is None or engine.weights is None:
        return
    path = to_absolute_path(engine.weights)
    if not Path(path).is_file():
        yield f"engine.weights={engine.weights}: no such file; give a safetensors file, or null to draw weights"
    elif model:
        from pipeline.engine.checkpoint import lacking
        from pipeline.engine.stack import schedule  # imports torch

        lines = lacking(path, model, schedule(model, engine))
        try:
            yield from (f"engine.weights={engine.weights}: {line}" for line in lines)
        except ConfigError as error:
            yield from error.lines


def _kernel_faults(found: Draft, model: Model | None, engine: Engine | None) -> Iterator[str]:
    from pipeline.door.variants import problems  # imports torch
    from pipeline.engine.device import resolved

    device = None
    try:
        known = engine and resolved(engine)
        device = known and known.device
        yield from selftest.hidden(known) if known and found.data.get("self_test") is not None else ()
    except ValueError as error:
        yield str(error)
    arms, reference = found.entries(Variant, "arms"), found.sound(Variant, "reference")
    for name in sorted(RESERVED & arms.keys()):
        yield f"arms.{name}: the name belongs to the baseline's repetition (measure.control); give this arm another"
    for name, variant in arms.items():
        yield from problems(variant, model, f"arms.{name}", device)
    if reference:
        yield from problems(reference, model, "reference", device)


def _scope_faults(found: Draft, model: Model | None, engine: Engine | None, measure: Measure | None) -> Iterator[str]:
    """Of a config that is sound but for this."""
    seed = found.sound(Seed, "seed")
    if found.lines or seed is None or not (model and engine and measure) or measure.scope == "stack":
        return
    arms, workloads = found.entries(Variant, "arms"), found.entries(Workload, "workloads")
    if any((*rules.experiment(model, engine, measure), *rules.one_stage(arms, measure))):
        return
    if any(line for name, asked in workloads.items() for line in rules.workload(name, asked, model)):
        return
    try:
        drawn = cases(workloads, model, seed)
    except ConfigError:
        return
    if not any(rules.unchunked(drawn, engine)):
        from pipeline.door.scope import uncalled  # imports torch

        yield from uncalled(measure.scope, model, engine, arms, drawn)


def _absolute_uri(uri: str) -> str:
    return SQLITE + to_absolute_path(uri.removeprefix(SQLITE))
