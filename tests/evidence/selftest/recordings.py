"""A recording of the self test on a machine whose drift, noise and delays are known."""

import numpy as np

from pipeline.evidence.samples import Samples
from pipeline.evidence.selftest.detect import Delay
from pipeline.evidence.summary import Check
from pipeline.work.schedule import schedule
from pipeline.work.workload import Case, Request

STEP = 0.03
REQUESTS = (Request(0.0, 99, 100, 3),)
STEPS = schedule(REQUESTS, max_num_seqs=1, max_num_batched_tokens=64, chunked_prefill=True)
CASE = Case("decode-102", "decode", 102, REQUESTS, "abc")
DELAYS = tuple(Delay(f"delay-{100 * share:g}" if share else "same", share, share * STEP) for share in (0, 0.01, 0.05))
ARMS = ("plain", "control", *(delay.arm for delay in DELAYS))
CHECKS = dict.fromkeys(ARMS, Check(True, 1e-6, 1e-4, ""))


def recording(
    rounds: int,
    noise: float,
    block_rounds: int = 4,
    seed: int = 0,
    added: float = 0.0,
    placed: tuple[float, ...] = (0.0,) * len(ARMS),
) -> Samples:
    """`added` seconds of every step are told to nobody: all arms but the baseline and the control have them.

    `placed`: by what share where its caches lie makes each arm slower.
    """
    random = np.random.default_rng(seed)
    machine = np.cumsum(random.normal(0, 0.01, rounds)) + 0.2 * np.sin(np.arange(rounds) / 40)
    shape = (rounds, len(STEPS), len(ARMS))
    seconds = STEP * np.exp(machine[:, None, None] + random.normal(0, noise, shape))
    seconds *= 1 + np.array(placed)
    seconds += [0, 0, *(delay.seconds + added for delay in DELAYS)]
    none = np.zeros((len(STEPS), len(ARMS)), int)
    return Samples(
        case="decode-102",
        workload="decode",
        context=102,
        digest="abc",
        scope="stack",
        arms=ARMS,
        shortcut=(False,) * len(ARMS),
        seconds=seconds,
        order=np.zeros(shape, int),
        rows=none[:, 0],
        skipped=none,
        scorable=none[:, 0],
        started=0.0,
        warmup_rounds=0,
        block_rounds=block_rounds,
    )
