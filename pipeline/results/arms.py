"""What every arm is, in a line: what it puts in the place of the baseline's stages, with its knobs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from pipeline.evidence.summary import Summary
from pipeline.schema import Config

TARGET = "_target_"
NOISE = "noise"  # what the control is called


def arms(summary: Summary, config: Config) -> dict[str, str]:
    """By arm, baseline first. Of the stages that an arm has in common with the baseline nothing is said."""
    base = dict(_stages(config, summary.baseline))
    found = {}
    for name in config.arms:
        if name == summary.baseline:
            found[name] = "the baseline"
            continue
        own = dict(_stages(config, name))
        changed = [_said(stage, made, base.get(stage)) for stage, made in own.items() if made != base.get(stage)]
        changed += [f"no {stage}" for stage in base if stage not in own]
        found[name] = ", ".join(changed) or f"{summary.baseline} again"
    return found | ({NOISE: f"{summary.baseline} again"} if summary.control else {})


def _stages(config: Config, name: str) -> Iterator[tuple[str, Any]]:
    if name in config.arms:
        yield from _flat(asdict(config.arms[name]))


def _flat(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and TARGET not in value:
            yield from _flat(value)
        elif value is not None:
            yield key, value


def _said(stage: str, made: Any, base: Any) -> str:
    """`select.shortcut_row (spare=2)`, or the knobs alone where the implementation is the baseline's."""
    if not isinstance(made, Mapping):
        return f"{stage}={made}"
    before = base if isinstance(base, Mapping) and base[TARGET] == made[TARGET] else {}
    knobs = [f"{key}={value}" for key, value in made.items() if key != TARGET and before.get(key) != value]
    knobs += [f"{key} left out" for key in before if key not in made]
    module = made[TARGET].rpartition(".")[0].removeprefix("kernels.") or made[TARGET]
    return f"{module} ({', '.join(knobs)})" if knobs else module
