"""Arms take turns under one clock."""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from pipeline.engine.arms.arm import Arm, ArmFailed
from pipeline.evidence.samples import capped
from pipeline.evidence.stats import MINIMUM_BLOCKS
from pipeline.evidence.timing.clock import Clock

OnStep = Callable[[int, int, int, Any], None]  # round, step, arm, what the step returned
Advance = Callable[[int, int], None]  # rounds done and rounds in all, warm-up included
AtBlockEdge = Callable[[int, int], str]  # first and last round of the block that ended -> why it is void, or ""


@dataclass(frozen=True)
class Design:
    """How many rounds, in what blocks and in what random order.

    A warm-up round is a round like any other, except that it is not recorded.
    """

    rounds: int
    warmup_rounds: int
    seconds: float | None  # after which no block begins
    seed: int
    block_rounds: int = 1

    @property
    def total(self) -> int:
        """Rounds, warm-up included."""
        return self.warmup_rounds + self.rounds

    @property
    def least(self) -> int:
        """Rounds that are made whatever the seconds, so that there can be an interval."""
        return min(self.rounds, MINIMUM_BLOCKS * self.block_rounds)


@dataclass(eq=False)
class Rounds:
    """What was recorded, whole rounds only. It is the caller's, who keeps it when `measure` is cut short.

    `void` says for each round why it does not count, and is empty where it does; `late` how many of its steps were
    replayed and hold the host's time all the same.
    """

    steps: int
    arms: int
    started: float = 0.0  # unix time of the first round
    void: list[str] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    _taken: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._taken)

    def add(self, seconds: np.ndarray, order: np.ndarray, late: int) -> None:
        """Both [step, arm]."""
        self._taken.append((seconds, order))
        self.void.append("")
        self.late.append(late)

    @property
    def counting(self) -> int:
        return self.void.count("")

    @property
    def seconds(self) -> np.ndarray:
        """float64 [round, step, arm]."""
        return np.array([seconds for seconds, _ in self._taken], float).reshape(len(self), self.steps, self.arms)

    @property
    def order(self) -> np.ndarray:
        """int [round, step, arm]: the turn in which the arm ran, from 0."""
        return np.array([order for _, order in self._taken], int).reshape(len(self), self.steps, self.arms)


@dataclass(frozen=True)
class Hooks:
    """Called between steps, with the clock stopped."""

    on_step: OnStep = lambda *_: None
    on_progress: Advance = lambda *_: None
    at_block_edge: AtBlockEdge = lambda *_: ""
    on_block: Callable[[Rounds], bool] = lambda _: False


NO_HOOKS = Hooks()


def measure(arms: Sequence[Arm], recorded: Rounds, design: Design, clock: Clock, hooks: Hooks = NO_HOOKS) -> None:
    """Every arm runs every step of every round.

    Rounds come in blocks. `at_block_edge` is called once before the first block, with (0, -1), and after each: a block
    that it gives a reason against is void and made again in the same order, as long as no more than twice the rounds
    are made, unless the load itself keeps the device at its power cap: then nothing else is to be had. `on_block` is
    called after each block: True ends it. No block begins once `seconds` have passed since the first recorded round,
    but MINIMUM_BLOCKS are made in any case.
    ArmFailed names the arm that raised.
    """
    assert len(arms) == recorded.arms
    warmup, order = (turns(recorded.steps, len(arms), at) for at in (design.seed + 1, design.seed))
    block: list[np.ndarray] = []
    rounds, least, total = design.rounds, design.least, design.total
    with _collection_between_rounds_only():
        for number in range(design.warmup_rounds):
            _run_round(arms, next(warmup), clock)
            hooks.on_progress(number + 1, total)
        hooks.at_block_edge(0, -1)
        recorded.started, spent = time.time(), time.monotonic()
        while (counting := recorded.counting) < rounds and (left := _most(recorded, rounds) - len(recorded)) > 0:
            enough = counting >= least or len(recorded) >= 2 * least
            if design.seconds is not None and enough and time.monotonic() - spent > design.seconds:
                break
            first, again = len(recorded), bool(recorded.void and recorded.void[-1])
            block = block if again else list(islice(order, min(design.block_rounds, rounds - counting)))
            for turn in block[:left]:
                before = clock.late
                taken = _run_round(arms, turn, clock, partial(hooks.on_step, len(recorded)))
                recorded.add(taken, turn, clock.late - before)
                hooks.on_progress(design.warmup_rounds + recorded.counting, total)
            recorded.void[first:] = [hooks.at_block_edge(first, len(recorded) - 1)] * (len(recorded) - first)
            if hooks.on_block(recorded):
                break
        if recorded.counting < rounds:
            hooks.on_progress(total, total)


def _most(recorded: Rounds, rounds: int) -> int:
    return rounds if capped(recorded.void) else 2 * rounds


def turns(steps: int, arms: int, seed: int) -> Iterator[np.ndarray]:
    """int [step, arm] of one round after the other: the turn of each arm, random and balanced.

    In a tile of `arms` rounds by `arms` steps every arm has every turn once in each round and once at each step. In a
    block of two by two tiles every arm runs right after every other arm twice in each round and twice at each step.
    """
    assert arms, "there is no arm to take turns"
    generator, across = np.random.default_rng(seed), range(0, max(steps, 1), 2 * arms)
    while True:
        yield from np.concatenate([_block(arms, generator) for _ in across], axis=1)[:, :steps]


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
            try:
                arms[arm].prepare(step)
                taken, output = clock(partial(arms[arm].step, step), arms[arm].replays(step))
            except Exception as error:
                raise ArmFailed(int(arm), step, error) from error
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
