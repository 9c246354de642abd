"""What an experiment's questions bring along, read before the first step: the files may be gone when it ends."""

from dataclasses import dataclass

from pipeline.schema import Config
from pipeline.work.benchmark import read_benchmark
from pipeline.work.traffic import Drawn, drawn


@dataclass(frozen=True)
class Brought:
    traffic: dict[str, Drawn]
    model_seconds: dict[str, float]  # of the benchmark, by metric; empty where there is none


NOTHING = Brought({}, {})


def brought(config: Config) -> Brought:
    """ConfigError from a file that cannot be read."""
    return Brought(
        {name: drawn(one) for name, one in config.traffic.items()},
        read_benchmark(config.projection.benchmark) if config.projection else {},
    )
