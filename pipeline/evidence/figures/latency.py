"""When every request got its tokens, from how long every step took.

TTFT, ITL, TPOT and E2EL are what `vllm bench serve` means by them. ITL is the gap between two steps that brought a
request tokens, however many each brought.

Steps are formed on the nominal clock of the schedule, but time is an arm's own. On its clock the steps follow each
other without a gap, and a request that arrives when a fraction of a nominal step has passed arrives when the same
fraction of the arm's step has. So every latency is a sum of step times, weighted alike for all arms: an arm that takes
0.9 of the time for each step has 0.9 of every latency, however long its steps are. Load is requests in a step, not in a
second: an arm that is faster does not meet shorter queues, and the time in which a server would idle is in no figure.
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
    duration: np.ndarray  # [round]: of all steps
    completed: int
    failed: int
    input_tokens: int  # whole prompts, cached or not, as vLLM counts them
    output_tokens: int


def latency(requests: Sequence[Request], steps: Sequence[Step], seconds: np.ndarray) -> Latency:
    """seconds [round, step]."""
    ends = np.cumsum(seconds, axis=1)
    arrivals = _arrivals(requests, steps, ends)
    emits = _emits(len(requests), steps)
    completed = [(number, emitted) for number, emitted in enumerate(emits) if emitted]
    ttft, tpot, itl, e2el = ([np.empty((len(seconds), 0))] for _ in range(4))
    for number, emitted in completed:
        times, arrival = ends[:, list(emitted)], arrivals[:, number, None]
        tokens = sum(emitted.values())
        ttft.append(times[:, :1] - arrival)
        e2el.append(times[:, -1:] - arrival)
        itl.append(np.diff(times))
        if tokens > 1:
            tpot.append((times[:, -1:] - times[:, :1]) / (tokens - 1))
    return Latency(
        *(np.concatenate(parts, axis=1) for parts in (ttft, tpot, itl, e2el)),
        duration=ends[:, -1],
        completed=len(completed),
        failed=len(requests) - len(completed),
        input_tokens=sum(requests[number].prompt_len for number, _ in completed),
        output_tokens=sum(sum(emitted.values()) for emitted in emits),
    )


def _arrivals(requests: Sequence[Request], steps: Sequence[Step], ends: np.ndarray) -> np.ndarray:
    """[round, request] on the arm's clock. One that ends an idle gap is at the start of its first step."""
    nominal, arrivals = [step.time for step in steps], [request.arrival for request in requests]
    starts = np.pad(ends, ((0, 0), (1, 0)))[:, :-1]
    return np.array([np.interp(arrivals, nominal, row) for row in starts])


def _emits(requests: int, steps: Sequence[Step]) -> list[dict[int, int]]:
    """For each request the steps that brought it tokens, and how many."""
    emits: list[dict[int, int]] = [{} for _ in range(requests)]
    for number, step in enumerate(steps):
        for chunk in step.chunks:
            if chunk.emits:
                emits[chunk.request][number] = int(chunk.emits)
    return emits
