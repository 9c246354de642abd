"""Where a step goes: what the machine could do, what each stage takes and needs, and what that explains.

Every time is in seconds. None: not known here.
"""

from dataclasses import dataclass

APART = 1.1  # times a step


@dataclass(frozen=True)
class Roof:
    """Limits measured on this machine in the same run."""

    copy_bytes_per_second: float  # read plus write
    matrix_flops_per_second: float  # in the engine's dtype
    launch: float  # of a call that does next to nothing
    fp8_flops_per_second: float | None = None  # None where the machine has no fp8 matrix units
    graph_launch: float | None = None  # of such a call inside a CUDA graph; None where no step was one


@dataclass(frozen=True)
class StageCost:
    """One stage of one arm in a step, timed alone: the mean over the breakdown's steps, the sum over all layers.

    `limit` is what its bytes or its FLOPs take at the machine's rates, whichever is more; it is bound by launch where
    that is less than so many calls that do nothing would take. Bytes and FLOPs are what the stage's task needs, not
    what an implementation moves, and the same for all arms: rows that see no more entries than are selected need not
    be scored, whether an arm scores them or not.
    """

    stage: str
    calls: int  # in a step, or in those steps that have any
    seconds: float  # of all its calls
    low: float | None
    high: float | None
    bytes: int
    flops: int
    limit: float  # the larger of bytes and FLOPs over the machine's rates
    bound_by: str  # bytes, flops or launch
    share: float  # of the step
    within: str | None = None  # the stage that it is a part of; its time is in that one's

    @property
    def achieved_bytes_per_second(self) -> float:
        """0 where the stage takes less than can be measured."""
        return self.bytes / self.seconds if self.seconds > 0 else 0.0

    @property
    def achieved_flops_per_second(self) -> float:
        return self.flops / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Breakdown:
    """Where a step of an arm goes: the mean over the steps named, the first and the last of the case.

    `rest`: what the step takes beyond its whole stages, such as gaps between kernels and the norms between layers;
    below 0 where stages overlap in the step. In a graph (`graphed`) stages are timed with a cold cache, elsewhere as
    they come.
    """

    case: str
    arm: str
    step: float
    stages: tuple[StageCost, ...]  # whole ones and, behind theirs, the parts of select
    rest: float
    steps: tuple[int, ...] = ()
    bytes_limit: float = 0.0  # the bytes of all whole stages at copy bandwidth
    graphed: bool = False  # one of the steps at least

    @property
    def whole(self) -> tuple[StageCost, ...]:
        return tuple(stage for stage in self.stages if stage.within is None)

    @property
    def limit(self) -> float:
        """Seconds: every whole stage at its limit, one after the other."""
        return sum(stage.limit for stage in self.whole)

    @property
    def separable(self) -> bool:
        """False where the stages alone take so much more than the step that their shares of it mean nothing."""
        return sum(stage.seconds for stage in self.whole) <= APART * self.step


@dataclass(frozen=True)
class Explanation:
    """Does what changed in the stages explain what changed in the step? Differences are candidate minus baseline.

    A step is the mean of the breakdown's. Seconds of `stages` are per launch times launches in a step. Only an arm that
    is FASTER or SLOWER in the case has a share.
    """

    case: str
    arm: str
    changed: tuple[str, ...]  # stages, or streams
    stages: float
    stages_low: float | None
    stages_high: float | None
    step: float
    step_low: float | None
    step_high: float | None
    share: float | None  # of the step's difference; None where the step did not differ
    explained: bool | None  # None: nothing to explain, or too noisy to tell
    detail: str
    overlaps: bool = False  # stages run side by side in one of the two arms
