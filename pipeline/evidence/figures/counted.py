"""The steps that a metric is made of, so that what is counted beside it is of the same steps.

TTFT: from a request's first step to the one that brings its first token. TPOT: the steps after that, to its last token.
ITL, E2EL, duration and stages alone: all.
"""

from collections.abc import Sequence

import numpy as np

from pipeline.work.schedule import Step
from pipeline.work.workload import Request


def counted(metric: str, requests: Sequence[Request], steps: Sequence[Step]) -> np.ndarray:
    """bool [step]: whether any request's value of the metric has the step in it."""
    found = np.zeros(len(steps), bool)
    if metric not in ("ttft", "tpot"):
        return ~found
    for number in range(len(requests)):
        chunks = [[chunk for chunk in step.chunks if chunk.request == number] for step in steps]
        seen = [at for at, found_there in enumerate(chunks) if found_there]
        brought = [at for at in seen if any(chunk.emits for chunk in chunks[at])]
        if not brought:
            continue
        first, last = (seen[0], brought[0]) if metric == "ttft" else (brought[0] + 1, brought[-1])
        found[first : last + 1] = True
    return found


def tokens(metric: str, steps: Sequence[Step], among: np.ndarray) -> int:
    """Tokens that these steps bring, of TTFT all that they compute."""
    chosen = [step for step, is_counted in zip(steps, among, strict=True) if is_counted]
    if metric == "ttft":
        return sum(step.tokens for step in chosen)
    return sum(int(chunk.emits) for step in chosen for chunk in step.chunks)
