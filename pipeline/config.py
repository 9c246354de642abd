"""The composed YAML -> Config, or every fault in it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hydra.utils import to_absolute_path
from omegaconf import DictConfig, OmegaConf
from pydantic import TypeAdapter

from pipeline import rules
from pipeline.draft import Draft, draft
from pipeline.schema import Config, ConfigError, Engine, Measure, Model, Seed, Track, Variant, Workload
from pipeline.work.workload import cases

SQLITE = "sqlite:///"


def from_yaml(composed: DictConfig) -> Config:
    """ConfigError with all faults. Relative paths count from the folder where the command was given."""
    lines = list(faults(composed))
    if lines:
        raise ConfigError(lines)
    config = TypeAdapter(Config).validate_python(OmegaConf.to_container(composed, resolve=True))
    return replace(
        config,
        output_dir=to_absolute_path(config.output_dir),
        engine=replace(config.engine, weights=config.engine.weights and to_absolute_path(config.engine.weights)),
        track=replace(config.track, uri=config.track.uri and _absolute_uri(config.track.uri)),
    )


def faults(composed: DictConfig) -> Iterator[str]:
    """One line each, in the order of what it costs to find them: the last ones import torch and the kernels."""
    found = draft(composed)
    yield from found.lines
    model, engine = found.sound(Model, "model"), found.sound(Engine, "engine")
    yield from rules.experiment(model, engine, found.sound(Measure, "measure"))
    yield from _work_faults(found, model, engine)
    yield from _place_faults(engine, found.sound(Track, "track"))
    yield from _variant_faults(found, model)
    if engine:
        yield from _device_faults(engine)


def _work_faults(found: Draft, model: Model | None, engine: Engine | None) -> Iterator[str]:
    seed = found.sound(Seed, "seed")
    for name, workload in found.entries(Workload, "workloads").items():
        broken = list(rules.workload(f"workloads.{name}", workload))
        yield from broken
        if broken or model is None or seed is None:
            continue
        try:
            drawn = cases({name: workload}, model, seed)
        except ConfigError as error:
            yield from error.lines
        else:
            yield from rules.unchunked(drawn, engine) if engine else ()


def _place_faults(engine: Engine | None, track: Track | None) -> Iterator[str]:
    if engine and engine.weights and not Path(to_absolute_path(engine.weights)).is_file():
        yield f"engine.weights={engine.weights}: no such file; give a safetensors file, or null to draw weights"
    if track and track.uri is not None and not track.uri.startswith((SQLITE, "http://", "https://")):
        yield f"track.uri={track.uri}: must begin with {SQLITE}, http:// or https://; null keeps it in output_dir"


def _variant_faults(found: Draft, model: Model | None) -> Iterator[str]:
    from pipeline.variants import problems  # imports torch

    arms, reference = found.entries(Variant, "arms"), found.sound(Variant, "reference")
    if "control" in arms:
        yield "arms.control: the name belongs to the baseline's repetition (measure.control); give this arm another"
    for name, variant in arms.items():
        yield from problems(variant, model, f"arms.{name}")
    if reference:
        yield from problems(reference, model, "reference")


def _device_faults(engine: Engine) -> Iterator[str]:
    from pipeline.engine.device import resolved  # imports torch

    try:
        resolved(engine)
    except ValueError as error:
        yield str(error)


def _absolute_uri(uri: str) -> str:
    return SQLITE + to_absolute_path(uri.removeprefix(SQLITE)) if uri.startswith(SQLITE) else uri
