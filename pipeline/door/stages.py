"""A variant's YAML -> the stages that an arm runs."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from pipeline.door.variants import build
from pipeline.engine.layer import Prefill, Stages
from pipeline.engine.select import Select
from pipeline.schema import Config, Variant

CONTROL = "control"
PLAIN = ("share", "streams")  # say how stages run, and are none


def arm_stages(config: Config) -> dict[str, Stages]:
    """Every arm's stages, and the baseline's again as the control."""
    made = {name: stages(variant, f"arms.{name}") for name, variant in config.arms.items()}
    if not config.measure.control:
        return made
    baseline = next(iter(config.arms.values()))
    return made | {CONTROL: stages(baseline, CONTROL)}


def stages(variant: Variant, where: str = "variant") -> Stages:
    """ConfigError where a `_target_` or a knob is wrong."""

    def built(group: Any, names: Iterable[str], place: str) -> dict[str, Any]:
        return {name: build(getattr(group, name), f"{place}.{name}") for name in names}

    select = Select(**built(variant.select, Select.parts(), f"{where}.select"))
    prefill = variant.prefill and Prefill(**built(variant.prefill, Prefill.parts(), f"{where}.prefill"))
    whole = [stage.name for stage in fields(Stages) if stage.name not in ("select", "prefill", *PLAIN)]
    plain = {name: getattr(variant, name) for name in PLAIN}
    return Stages(select=select, prefill=prefill, **plain, **built(variant, whole, where))
