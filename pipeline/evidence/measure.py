"""Arms take turns under one clock."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pipeline.engine.arm import Arm
from pipeline.evidence.clock import Clock
from pipeline.evidence.stats import MINIMUM_ROUNDS

OnStep = Callable[[int, int, int, Any], None]  # round, step, arm, what the step returned
OnProgress = Callable[[int, int], None]  # rounds done and rounds in all, warm-up included


@dataclass(frozen=True, eq=False)
class Timing:
    seconds: np.ndarray  # float64 [round, step, arm]
    order: np.ndarray  # int [round, step, arm]: the turn in which the arm ran, from 0
    started: float  # unix time of the first recorded round
    warmup_steps: int  # unrecorded steps before, of all arms together


def measure(
    arms: Sequence[Arm],
    steps: int,
    rounds: int,
    warmup_rounds: int,
    seconds: float | None,
    seed: int,
    clock: Clock,
    on_step: OnStep = lambda *_: None,
    on_progress: OnProgress = lambda *_: None,
) -> Timing:
    """Every arm runs every step of every round; hooks are called between steps, with the clock stopped.

    No round begins once `seconds` have passed since the first recorded one, but MINIMUM_ROUNDS are made in any case.
    A warm-up round is a round like any other, except that it is not recorded.
    """
    warmup = turns(warmup_rounds, steps, len(arms), seed + 1)
    order = turns(rounds, steps, len(arms), seed)
    taken: list[np.ndarray] = []
    total = warmup_rounds + rounds
    with _collection_between_rounds_only():
        for number in range(warmup_rounds):
            _run_round(arms, warmup[number], clock)
            on_progress(number + 1, total)
        started, spent = time.time(), time.monotonic()
        for number in range(rounds):
            if seconds is not None and number >= MINIMUM_ROUNDS and time.monotonic() - spent > seconds:
                on_progress(total, total)
                break
            taken.append(_run_round(arms, order[number], clock, partial(on_step, number)))
            on_progress(warmup_rounds + number + 1, total)
    return Timing(np.array(taken), order[: len(taken)], started, warmup.size)


def turns(rounds: int, steps: int, arms: int, seed: int) -> np.ndarray:
    """int [round, step, arm]: the turn of each arm, random and balanced.

    Tiles of `arms` rounds by `arms` steps are Latin squares twice over: in a tile every arm has every turn once in each
    round and once at each step.
    """
    generator = np.random.default_rng(seed)
    tiles = [[_tile(arms, generator) for _ in range(0, max(steps, 1), arms)] for _ in range(0, max(rounds, 1), arms)]
    return np.concatenate([np.concatenate(row, axis=1) for row in tiles])[:rounds, :steps]


def _tile(arms: int, generator: np.random.Generator) -> np.ndarray:
    by_round, by_step, by_arm = (generator.permutation(arms) for _ in range(3))
    return (by_round[:, None, None] + by_step[:, None] + by_arm) % arms


def _run_round(arms: Sequence[Arm], order: np.ndarray, clock: Clock, on_step: Callable = lambda *_: None) -> np.ndarray:
    gc.collect()
    seconds = np.empty(order.shape)
    for step, places in enumerate(order):
        for arm in np.argsort(places):
            arms[arm].prepare(step)
            seconds[step, arm], output = clock(partial(arms[arm].step, step))
            on_step(step, int(arm), output)
            del output
    return seconds


@contextmanager
def _collection_between_rounds_only() -> Iterator[None]:
    """What exists already is frozen, or a collection would walk through all of torch in every round."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
