"""A variant's YAML -> the stages that an arm runs."""

from pipeline.door.variants import build
from pipeline.engine.layer import Stages
from pipeline.engine.select import Select
from pipeline.schema import Variant


def stages(variant: Variant, where: str = "variant") -> Stages:
    """ConfigError where a `_target_` or a knob is wrong."""
    parts = {name: build(getattr(variant.select, name), f"{where}.select.{name}") for name in Select.parts()}
    rest = {name: build(getattr(variant, name), f"{where}.{name}") for name in ("ingest", "compress", "attend", "emit")}
    return Stages(select=Select(**parts), **rest)
