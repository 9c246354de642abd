"""How often real requests have a length."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.questions import Bin, Traffic
from pipeline.work.trace import Trace, read_trace

POINTS_A_BIN = 16


@dataclass(frozen=True, eq=False)
class Lengths:
    contexts: np.ndarray  # float [point], ascending
    shares: np.ndarray  # float [point], of all; their sum is 1


def lengths(traffic: Traffic, decodes: bool) -> Lengths:
    """Of prompts, or of the contexts that decode steps see. ConfigError from a trace that cannot be read."""
    if traffic.trace is not None:
        trace = read_trace(traffic.trace)
        return _counted(_decodes(trace) if decodes else trace.prompts)
    return _spread(traffic.decodes if decodes and traffic.decodes else traffic.prompts or [])


def named(traffic: Traffic) -> str:
    return traffic.source or Path(traffic.trace or "").name


def _decodes(trace: Trace) -> np.ndarray:
    """The first token comes from the prompt's step; the n-th after it sees the prompt and n tokens more."""
    steps = np.maximum(trace.generated - 1, 0)
    nth = np.arange(steps.sum()) - np.repeat(np.cumsum(steps) - steps, steps) + 1
    return np.repeat(trace.prompts, steps) + nth


def _counted(contexts: np.ndarray) -> Lengths:
    """No point where no request decodes."""
    found, counts = np.unique(contexts, return_counts=True)
    return Lengths(found.astype(float), counts / max(counts.sum(), 1))


def _spread(bins: list[Bin]) -> Lengths:
    """The requests of a bin spread evenly over it."""
    edges = np.array([0, *(one.up_to for one in bins)])
    within = np.arange(1, POINTS_A_BIN + 1) / POINTS_A_BIN
    contexts = np.ceil(edges[:-1, None] + np.diff(edges)[:, None] * within)
    shares = np.repeat([one.share for one in bins], POINTS_A_BIN) / POINTS_A_BIN
    return Lengths(contexts.reshape(-1), shares / shares.sum())
