"""When every request got its tokens, from how long every step took.

TTFT, ITL, TPOT and E2EL are what `vllm bench serve` means by them. ITL is the gap between two steps that brought a
request tokens, however many each brought.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.work.schedule import Step
from pipeline.work.workload import Request


@dataclass(frozen=True, eq=False)
class Latency:
    """Seconds of one arm, a row for each round. Counts are those of one round; a request without a token has failed."""

    ttft: np.ndarray  # [round, completed request]
    tpot: np.ndarray  # [round, completed request with two or more tokens]
    itl: np.ndarray  # [round, gap]
    e2el: np.ndarray  # [round, completed request]
    duration: np.ndarray  # [round]: from time 0, when vLLM begins to send, to the end of the last step
    completed: int
    failed: int
    input_tokens: int  # whole prompts, cached or not, as vLLM counts them
    output_tokens: int


def latency(requests: Sequence[Request], steps: Sequence[Step], seconds: np.ndarray) -> Latency:
    """seconds [round, step]."""
    ends = step_ends(requests, steps, seconds)
    emits = _emits(len(requests), steps)
    completed = [(request, emitted) for request, emitted in zip(requests, emits, strict=True) if emitted]
    ttft, tpot, itl, e2el = ([np.empty((len(seconds), 0))] for _ in range(4))
    for request, emitted in completed:
        times = ends[:, list(emitted)]
        tokens = sum(emitted.values())
        ttft.append(times[:, :1] - request.arrival)
        e2el.append(times[:, -1:] - request.arrival)
        itl.append(np.diff(times))
        if tokens > 1:
            tpot.append((times[:, -1:] - times[:, :1]) / (tokens - 1))
    return Latency(
        *(np.concatenate(parts, axis=1) for parts in (ttft, tpot, itl, e2el)),
        duration=ends[:, -1],
        completed=len(completed),
        failed=len(requests) - len(completed),
        input_tokens=sum(request.prompt_len for request, _ in completed),
        output_tokens=sum(sum(emitted.values()) for emitted in emits),
    )


def step_ends(requests: Sequence[Request], steps: Sequence[Step], seconds: np.ndarray) -> np.ndarray:
    """[round, step] -> [round, step]: a step starts when the step before has ended and all its requests are there."""
    ends = np.empty_like(seconds)
    now = np.zeros(len(seconds))
    for number, step in enumerate(steps):
        arrived = max(requests[chunk.request].arrival for chunk in step.chunks)
        now = np.maximum(now, arrived) + seconds[:, number]
        ends[:, number] = now
    return ends


def _emits(requests: int, steps: Sequence[Step]) -> list[dict[int, int]]:
    """For each request the steps that brought it tokens, and how many."""
    emits: list[dict[int, int]] = [{} for _ in range(requests)]
    for number, step in enumerate(steps):
        for chunk in step.chunks:
            if chunk.emits:
                emits[chunk.request][number] = int(chunk.emits)
    return emits
