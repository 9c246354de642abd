"""What the instrument found of delays that were put in."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Detection:
    """What many short runs found of one delay that was put in; `asked` 0 is A against A.

    `truth` and `estimate` are ratios to the baseline, geometric means over the runs; `half_width` is the median of the
    intervals. Then the runs by verdict, and those whose interval, widened by the noise floor that the control shows,
    holds the truth of the run; `covered_alone`: those whose interval does without that. `noise` is its median.
    """

    arm: str
    asked: float  # 0.01: 1 % of the step
    seconds: float  # of a step, measured alone
    truth: float
    estimate: float
    half_width: float | None
    faster: int
    slower: int
    same: int
    undecided: int
    covered: int
    runs: int
    covered_alone: int = 0
    noise: float | None = None


@dataclass(frozen=True)
class Bar:
    """What must happen in `needed` of so many runs."""

    what: str
    reached: int
    needed: int
    of: int

    @property
    def held(self) -> bool:
        return self.reached >= self.needed


@dataclass(frozen=True)
class SelfTest:
    """The instrument judged by what was put in. `smallest`: the delay that is found, as are all larger ones."""

    case: str
    stage: str  # that waits
    step: float  # of the baseline
    runs: int
    rounds: int  # of each run
    must_find: float
    smallest: float | None
    detections: tuple[Detection, ...]
    bars: tuple[Bar, ...]

    @property
    def passed(self) -> bool:
        return all(bar.held for bar in self.bars)
