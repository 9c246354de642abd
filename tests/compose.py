"""Configs as a user would get them, for tests."""

from functools import cache
from pathlib import Path

from hydra import compose, initialize_config_dir

from pipeline.config import from_yaml
from pipeline.schema import Config

CONF = Path(__file__).parent.parent / "conf"


@cache
def config(*overrides: str) -> Config:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return from_yaml(compose("config", [*overrides]))
