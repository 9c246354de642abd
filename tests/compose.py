"""Configs as a user would get them, for tests."""

from functools import cache
from pathlib import Path

from hydra import compose, initialize_config_dir

from pipeline.door.config import from_yaml
from pipeline.schema import Config

CONF = Path(__file__).parent.parent / "conf"
ON_GPU = {path.stem for path in (CONF / "exp").glob("*.yaml") if "device: cuda" in path.read_text()}


@cache
def config(*overrides: str) -> Config:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return from_yaml(compose("config", [*overrides]))
