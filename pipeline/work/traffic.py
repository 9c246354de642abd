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


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a traffic draws from: lengths of prompts, and contexts that decode steps see."""

    source: str
    prompts: Lengths
    decodes: Lengths


def drawn(traffic: Traffic) -> Drawn:
    """ConfigError from a trace that cannot be read."""
    source = traffic.source or Path(traffic.trace or "").name
    if traffic.trace is not None:
        trace = read_trace(traffic.trace)
        return Drawn(source, _counted(np.bincount(trace.prompts)), _counted(_decodes(trace)))
    prompts = _spread(traffic.prompts or [])
    return Drawn(source, prompts, _spread(traffic.decodes) if traffic.decodes else prompts)


def _decodes(trace: Trace) -> np.ndarray:
    """Decode steps by the context that they see.

    A request's first token comes from the prompt's step; the n-th after it sees the prompt and n tokens more.
    """
    steps = np.maximum(trace.generated - 1, 0)
    change = np.zeros(int((trace.prompts + steps).max()) + 2, np.int64)
    np.add.at(change, trace.prompts + 1, 1)
    np.add.at(change, trace.prompts + steps + 1, -1)
    return np.cumsum(change)


def _counted(counts: np.ndarray) -> Lengths:
    """By context. No point where no request decodes."""
    contexts = np.flatnonzero(counts)
    return Lengths(contexts.astype(float), counts[contexts] / max(counts.sum(), 1))


def _spread(bins: list[Bin]) -> Lengths:
    """The requests of a bin spread evenly over it."""
    edges = np.array([0, *(one.up_to for one in bins)])
    within = np.arange(1, POINTS_A_BIN + 1) / POINTS_A_BIN
    contexts = np.ceil(edges[:-1, None] + np.diff(edges)[:, None] * within)
    shares = np.repeat([one.share for one in bins], POINTS_A_BIN) / POINTS_A_BIN
    return Lengths(contexts.reshape(-1), shares / shares.sum())
