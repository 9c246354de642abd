"""Figures over all rounds of an arm, under the JSON keys of `vllm bench serve`.

Rounds are pooled as if they had been served one after the other: counts and durations add up, latencies are samples of
one distribution. What does not exist is left out and told why; no figure is ever NaN, infinite or a stand-in 0.
"""

import math
from dataclasses import dataclass

import numpy as np

from pipeline.evidence.figures.latency import Latency

PERCENTILE_METHOD = "linear"
MINIMUM_SAMPLES = {"mean": 1, "median": 1, "std": 2, "p99": 100}


@dataclass(frozen=True)
class Metrics:
    values: dict[str, float]
    undefined: dict[str, str]  # key -> why it is not in values


def serving(latency: Latency) -> Metrics:
    """Of a whole stack. TPOT is over the requests with two or more tokens only."""
    rounds = len(latency.duration)
    duration = float(latency.duration.sum())
    counts = {
        "duration": duration,
        "completed": latency.completed * rounds,
        "failed": latency.failed * rounds,
        "total_input_tokens": latency.input_tokens * rounds,
        "total_output_tokens": latency.output_tokens * rounds,
    }
    per_second = {
        "request_throughput": counts["completed"],
        "output_throughput": counts["total_output_tokens"],
        "total_token_throughput": counts["total_input_tokens"] + counts["total_output_tokens"],
    }
    parts = [Metrics(counts, {}), _throughput(per_second, duration)]
    for name, nothing in {
        "ttft": "no request brought a token",
        "tpot": "no request brought two tokens",
        "itl": "no request brought tokens in two steps",
        "e2el": "no request brought a token",
    }.items():
        parts.append(distribution(f"{name}_ms", getattr(latency, name) * 1e3, nothing))
    return _merged(parts)


def calls(seconds: np.ndarray) -> Metrics:
    """Of a stage alone: seconds [round, step], each step a call."""
    return distribution("step_us", seconds * 1e6, "nothing was called")


def in_cycles(values: dict[str, float], name: str, clock_mhz: float) -> dict[str, float]:
    """Mean and median of a metric in cycles of the device; none where its clock is not known.

    Between two runs of one device, cycles differ by less than times do where its clock moved.
    """
    if math.isnan(clock_mhz):
        return {}
    microseconds = {f"{name}_ms": 1e3, f"{name}_us": 1.0}
    return {
        f"{figure}_{name}_cycles": values[f"{figure}_{key}"] * unit * clock_mhz
        for key, unit in microseconds.items()
        for figure in ("mean", "median")
        if f"{figure}_{key}" in values
    }


def distribution(suffix: str, values: np.ndarray, nothing: str) -> Metrics:
    """mean, median, std (of the population, as vLLM has it) and p99, each from its minimum of samples on."""
    found = {
        "mean": np.mean,
        "median": np.median,
        "std": np.std,
        "p99": lambda samples: np.percentile(samples, 99, method=PERCENTILE_METHOD),
    }
    metrics = Metrics({}, {})
    for name, figure in found.items():
        key, minimum = f"{name}_{suffix}", MINIMUM_SAMPLES[name]
        if values.size >= minimum:
            metrics.values[key] = float(figure(values))
        else:
            metrics.undefined[key] = f"{values.size} samples, {minimum} are needed" if values.size else nothing
    return metrics


def _throughput(amounts: dict[str, int], duration: float) -> Metrics:
    if not amounts["output_throughput"]:
        return Metrics({}, dict.fromkeys(amounts, "no request brought a token"))
    if not duration:
        return Metrics({}, dict.fromkeys(amounts, "the clock saw no time pass"))
    return Metrics({name: amount / duration for name, amount in amounts.items()}, {})


def _merged(parts: list[Metrics]) -> Metrics:
    return Metrics(
        {key: value for part in parts for key, value in part.values.items()},
        {key: reason for part in parts for key, reason in part.undefined.items()},
    )
