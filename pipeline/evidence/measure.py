"""Arms take turns under one clock."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from pipeline.engine.arm import Arm
from pipeline.evidence.clock import Clock
from pipeline.evidence.stats import MINIMUM_ROUNDS

OnStep = Callable[[int, int, int, Any], None]  # round, step, arm, what the step returned
Advance = Callable[[int, int], None]  # rounds done and rounds in all, warm-up included


@dataclass(eq=False)
class Rounds:
    """What was recorded, whole rounds only. It is the caller's, who keeps it when `measure` is cut short."""

    steps: int
    arms: int
    started: float = 0.0  # unix time of the first round
    _taken: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._taken)

    def add(self, seconds: np.ndarray, order: np.ndarray) -> None:
        """Both [step, arm]."""
        self._taken.append((seconds, order))

    @property
    def seconds(self) -> np.ndarray:
        """float64 [round, step, arm]."""
        return np.array([seconds for seconds, _ in self._taken], float).reshape(len(self), self.steps, self.arms)

    @property
    def order(self) -> np.ndarray:
        """int [round, step, arm]: the turn in which the arm ran, from 0."""
        return np.array([order for _, order in self._taken], int).reshape(len(self), self.steps, self.arms)


def measure(
    arms: Sequence[Arm],
    recorded: Rounds,
    rounds: int,
    warmup_rounds: int,
    seconds: float | None,
    seed: int,
    clock: Clock,
    on_step: OnStep = lambda *_: None,
    on_progress: Advance = lambda *_: None,
) -> None:
    """Every arm runs every step of every round; hooks are called between steps, with the clock stopped.

    No round begins once `seconds` have passed since the first recorded one, but MINIMUM_ROUNDS are made in any case.
    A warm-up round is a round like any other, except that it is not recorded.
    """
    assert len(arms) == recorded.arms
    warmup = turns(warmup_rounds, recorded.steps, len(arms), seed + 1)
    order = turns(rounds, recorded.steps, len(arms), seed)
    total = warmup_rounds + rounds
    with _collection_between_rounds_only():
        for number in range(warmup_rounds):
            _run_round(arms, warmup[number], clock)
            on_progress(number + 1, total)
        recorded.started, spent = time.time(), time.monotonic()
        for number in range(rounds):
            if seconds is not None and number >= MINIMUM_ROUNDS and time.monotonic() - spent > seconds:
                on_progress(total, total)
                break
            recorded.add(_run_round(arms, order[number], clock, partial(on_step, number)), order[number])
            on_progress(warmup_rounds + number + 1, total)


def turns(rounds: int, steps: int, arms: int, seed: int) -> np.ndarray:
    """int [round, step, arm]: the turn of each arm, random and balanced.

    In a tile of `arms` rounds by `arms` steps every arm has every turn once in each round and once at each step. In a
    block of two by two tiles every arm runs right after every other arm twice in each round and twice at each step.
    """
    assert arms, "there is no arm to take turns"
    generator = np.random.default_rng(seed)
    across, down = (range(0, max(count, 1), 2 * arms) for count in (steps, rounds))
    blocks = [np.concatenate([_block(arms, generator) for _ in across], axis=1) for _ in down]
    return np.concatenate(blocks)[:rounds, :steps]


def _block(arms: int, generator: np.random.Generator) -> np.ndarray:
    """Four tiles of the same names. Every other one runs backwards: an odd number of arms needs both directions."""
    names = generator.permutation(arms)
    one, two, three, four = (_tile(names, generator) for _ in range(4))
    last = arms - 1
    return np.concatenate([np.concatenate([one, last - two], axis=1), np.concatenate([last - three, four], axis=1)])


def _tile(names: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """A cyclic Latin square of the sequence 0, 1, -1, 2, -2, ..., whose steps are all different.

    Williams, Experimental designs balanced for the estimation of residual effects of treatments (1949).
    """
    arms = len(names)
    by_round, by_step = generator.permutation(arms), generator.permutation(arms)
    turn = np.arange(arms)
    sequence = np.where(turn % 2, (turn + 1) // 2, -(turn // 2)) % arms
    return np.argsort(sequence)[(names + by_round[:, None, None] + by_step[:, None]) % arms]


def _run_round(arms: Sequence[Arm], order: np.ndarray, clock: Clock, on_step: Callable = lambda *_: None) -> np.ndarray:
    gc.collect()
    seconds = np.empty(order.shape)
    for step, places in enumerate(order):
        for arm in np.argsort(places):
            arms[arm].prepare(step)
            taken, output = clock(partial(arms[arm].step, step))
            seconds[step, arm] = taken / arms[arm].repeats
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
