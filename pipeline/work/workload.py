"""A workload drawn into requests: the same ones for every arm, whatever else stands in the experiment."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass

import numpy as np

from pipeline.fields import MAX_TOKENS, Fixed, Listed, LogNormal, Uniform, WholePrompt
from pipeline.schema import ConfigError, Model, Sequences, Workload


@dataclass(frozen=True)
class Request:
    """`cached_len` of the `prompt_len` tokens are in the caches when it arrives; at least one token is not."""

    arrival: float  # seconds after the first request
    cached_len: int
    prompt_len: int
    output_len: int

    @property
    def context(self) -> int:
        """Tokens that its last step sees. The last output token is never fed back."""
        return self.prompt_len + self.output_len - 1


@dataclass(frozen=True)
class Case:
    """A workload at one context of its ladder; without a ladder, at its longest sequence."""

    name: str
    workload: str
    context: int
    requests: tuple[Request, ...]
    digest: str  # of the requests


def cases(workloads: Mapping[str, Workload], model: Model, seed: int) -> list[Case]:
    """Draws depend on the seed and the workload's name only. ConfigError names what cannot be asked."""
    drawn, faults = [], []
    for name, workload in workloads.items():
        for context in contexts(workload, model) or [None]:
            title = name if context is None else f"{name}-{context}"
            requests = _requests(workload, context, np.random.default_rng([seed, *name.encode()]))
            fault = _fault(f"workloads.{name}", title, requests)
            if fault:
                faults.append(fault)
                break
            longest = max(request.context for request in requests)
            drawn.append(Case(title, name, context or longest, requests, _digest(requests)))
    titles = Counter(case.name for case in drawn)
    faults += [
        f"workloads: {count} cases are called {title}; rename one" for title, count in titles.items() if count > 1
    ]
    if faults:
        raise ConfigError(faults)
    return drawn


def contexts(workload: Workload, model: Model) -> list[int]:
    """The ladder and what lies around the boundary, ascending; empty where there is neither."""
    boundary = model.compress_ratio * model.topk
    return sorted({*(workload.ladder or []), *(boundary + offset for offset in workload.boundary or [])})


def _requests(workload: Workload, context: int | None, random: np.random.Generator) -> tuple[Request, ...]:
    shares = _shares([part.weight for part in workload.mix], workload.num_requests)
    lengths = [
        row
        for part, share in zip(workload.mix, shares, strict=True)
        for row in zip(*_lengths(part, context, share, random), strict=True)
    ]
    order = random.permutation(workload.num_requests)
    arrivals = _arrivals(workload, random)
    return tuple(
        Request(float(arrival), *map(int, lengths[place])) for arrival, place in zip(arrivals, order, strict=True)
    )


def _shares(weights: list[float], count: int) -> list[int]:
    """Whole numbers in proportion to the weights that add up to count: largest remainders, the first among equals."""
    exact = np.array(weights) / sum(weights) * count
    shares = np.floor(exact).astype(int)
    shares[np.argsort(shares - exact, kind="stable")[: count - shares.sum()]] += 1
    return shares.tolist()


def _lengths(part: Sequences, context: int | None, count: int, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """cached_len, prompt_len and output_len of `count` requests."""
    output = _draw(part.output_len, count, random)
    prompt = _draw(part.prompt_len, count, random) if context is None else context + 1 - output
    cached = prompt - 1 if isinstance(part.cached_len, WholePrompt) else _draw(part.cached_len, count, random)
    return cached, prompt, output


def _draw(length: Fixed | Uniform | LogNormal | Listed, count: int, random: np.random.Generator) -> np.ndarray:
    match length:
        case Fixed(value=value):
            return np.full(count, value)
        case Uniform(low=low, high=high):
            return random.integers(low, high, count, endpoint=True)
        case LogNormal(median=median, sigma=sigma, low=low, high=high):
            with np.errstate(over="ignore"):
                drawn = np.exp(random.normal(np.log(median), sigma, count))
            return np.rint(drawn.clip(low, high)).astype(int)
        case Listed(values=values, weights=None):
            return np.resize(values, count)
        case Listed(values=values, weights=weights):
            return random.choice(values, count, p=np.array(weights) / sum(weights))


def _arrivals(workload: Workload, random: np.random.Generator) -> np.ndarray:
    """Seconds, the first at 0. Gaps are gamma distributed with mean 1 / rate, as `vllm bench serve` draws them."""
    arrival, count = workload.arrival, workload.num_requests
    if arrival.rate is None:
        return np.zeros(count)
    with np.errstate(all="ignore"):  # what is beyond numbers is a fault of the requests
        gaps = random.gamma(arrival.burstiness, 1 / arrival.rate / arrival.burstiness, count)
        return np.cumsum(gaps) - gaps[0]


def _fault(where: str, title: str, requests: tuple[Request, ...]) -> str | None:
    rules = [
        ("an arrival that is a number", "raise arrival.rate or burstiness", lambda it: math.isfinite(it.arrival)),
        ("a prompt of at least 1 token", "raise the context or prompt_len", lambda asked: asked.prompt_len >= 1),
        ("cached_len below prompt_len", "lower cached_len", lambda asked: asked.cached_len < asked.prompt_len),
        (f"at most {MAX_TOKENS} tokens", "lower prompt_len or output_len", lambda asked: asked.context <= MAX_TOKENS),
    ]
    for needed, remedy, kept in rules:
        lacking = [request for request in requests if not kept(request)]
        if lacking:
            first = lacking[0]
            return (
                f"{where}: {len(lacking)} of {len(requests)} requests of {title} lack {needed}, the first with "
                f"cached_len={first.cached_len}, prompt_len={first.prompt_len}, output_len={first.output_len}; {remedy}"
            )
    return None


def _digest(requests: tuple[Request, ...]) -> str:
    return hashlib.sha256(json.dumps([astuple(request) for request in requests]).encode()).hexdigest()[:12]
