"""The raw values of one case: what every arm took for every step of every round."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

AT_POWER_CAP = "the device was throttled by power cap"
NEARLY_ALWAYS = 0.75  # of the blocks


@dataclass(frozen=True, eq=False)
class Samples:
    """Rounds are repetitions of the same steps; within a (round, step) the arms take turns.

    `context` is the longest sequence that a step of the case sees; `scope` says what `seconds` times: the whole stack,
    or one stage of it. Rows are query tokens without padding, counted once per csa layer in `skipped` and `scorable`.
    """

    case: str
    workload: str
    context: int
    digest: str  # of the requests
    scope: str
    arms: tuple[str, ...]  # the first is the baseline
    shortcut: tuple[bool, ...]  # [arm]: whether the arm has a path that may skip scoring
    seconds: np.ndarray  # float64 [round, step, arm]
    order: np.ndarray  # int [round, step, arm]: the turn in which the arm ran, from 0
    rows: np.ndarray  # int [step]
    skipped: np.ndarray  # int [step, arm]: rows that were not scored
    scorable: np.ndarray  # int [step]: rows that scoring all would score
    started: float  # unix time of the first recorded round
    warmup_rounds: int  # rounds that ran before, not recorded; 0: the first round is cold
    partial: bool = False  # measuring was cut short: whole rounds, but fewer than were asked for
    given_up: int = 0  # which attempt at the case it is, if one in which an arm failed; 0: the one that counts
    mode: str = ""  # how it was timed; empty where an experiment has one way only
    block_rounds: int = 1  # rounds in a block; blocks are what is resampled
    void: tuple[str, ...] = ()  # [round]: why it does not count, empty where it does; () where all do
    least_sound: int = 1  # rounds that are not void; where there are fewer, all count
    clock_mhz: float = math.nan  # median of the device, where it tells
    late: tuple[int, ...] = ()  # [round]: replayed steps whose launch the device did not wait for; () means none
    repeats: tuple[int, ...] = ()  # [step]: how often `seconds` has the work in it; () where that is once

    @property
    def counts(self) -> np.ndarray:
        """bool [round]: whether it is not void. All count where the machine is hardly ever at rest."""
        return counting(self.void, len(self.seconds), self.least_sound)


def capped(void: Sequence[str]) -> bool:
    """Whether the power cap alone held the clocks down, nearly always: so fast the device runs this load."""
    held = void.count(AT_POWER_CAP)
    return held > NEARLY_ALWAYS * len(void) and held + void.count("") == len(void)


def counting(void: Sequence[str], rounds: int, least: int) -> np.ndarray:
    """bool [round]: the sound ones; all where these are fewer than the least, or where the load is at the power cap."""
    sound = np.array([not reason for reason in void] or [True] * rounds, bool)
    return sound if sound.sum() >= least and not capped(void) else np.ones(rounds, bool)
