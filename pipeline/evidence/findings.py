"""What an experiment found besides ratios: what else happened, what explains it, where it applies, what it is worth.

Every time is in seconds, every rate in units a second. None: not known here.
"""

from dataclasses import dataclass

from pipeline.evidence.detected import SelfTest


@dataclass(frozen=True)
class Machine:
    """The machine while it was timed. Ranges are (lowest, highest) over the edges of all blocks.

    `warnings`: what a reader must know before believing a figure, such as another process on the device.
    """

    blocks: int
    void_blocks: int  # repeated, because the device was throttled or a kernel was compiled in them
    sm_clock_mhz: tuple[float, float] | None
    memory_clock_mhz: tuple[float, float] | None
    temperature_c: tuple[float, float] | None
    power_w: tuple[float, float] | None
    throttled_by: tuple[str, ...]
    load: tuple[float, float] | None  # running processes, one-minute average
    cpu_mhz: tuple[float, float] | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Compiles:
    """What an arm compiled in all cases. A variant is one compiled form of a kernel.

    `break_even_launches`: launches after which what the arm saves a launch against the baseline has paid for what it
    compiles more; None where it saves nothing, 0 where it does not compile more. A launch is a step of what was timed.
    A variant that several arms launch counts for each of them. Its `seconds` are those of this process: `from_disk`
    variants were only read from Triton's cache, `earlier` ones were there before the run and are not in `variants`.
    `first_step`: of the arm's first step in this process, in the order of the arms, what it compiles included.
    """

    arm: str
    kernels: int
    variants: int
    seconds: float
    first_step: float
    break_even_launches: int | None
    by_kernel: dict[str, int]  # compiled variants
    from_disk: int = 0
    earlier: int = 0


@dataclass(frozen=True)
class Roof:
    """Limits measured on this machine in the same run."""

    copy_bytes: float  # read plus write
    matrix_flops: float  # in the engine's dtype
    launch: float  # of a call that does next to nothing
    fp8_flops: float | None = None  # None where the machine has no fp8 matrix units


@dataclass(frozen=True)
class StageCost:
    """One stage of one arm in a step, timed alone: the mean over the breakdown's steps, the sum over all layers.

    `limit` is what its bytes or its FLOPs take at the machine's rates, whichever is more; it is bound by launch where
    that is less than so many calls that do nothing would take. Bytes and FLOPs are what the stage's task needs, not
    what an implementation moves: one that need not do all of it may stay below the limit.
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
    def achieved_bytes(self) -> float:
        """0 where the stage takes less than can be measured."""
        return self.bytes / self.seconds if self.seconds > 0 else 0.0

    @property
    def achieved_flops(self) -> float:
        return self.flops / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Breakdown:
    """Where a step of an arm goes: the mean over the steps named, the first and the last of the case.

    `rest`: what the step takes beyond its whole stages, such as gaps between kernels and the norms between layers;
    below 0 where stages overlap in the step. In a graph stages are timed with a cold cache, elsewhere as they come.
    """

    case: str
    arm: str
    step: float
    stages: tuple[StageCost, ...]  # whole ones and, behind theirs, the parts of select
    rest: float
    steps: tuple[int, ...] = ()
    bytes_limit: float = 0.0  # the bytes of all whole stages at copy bandwidth

    @property
    def whole(self) -> tuple[StageCost, ...]:
        return tuple(stage for stage in self.stages if stage.within is None)

    @property
    def limit(self) -> float:
        """Seconds: every whole stage at its limit, one after the other."""
        return sum(stage.limit for stage in self.whole)


@dataclass(frozen=True)
class Explanation:
    """Does what changed in the stages explain what changed in the step? Differences are candidate minus baseline.

    A step is the mean of the breakdown's. Seconds of `stages` are per launch times launches in a step.
    """

    case: str
    arm: str
    changed: tuple[str, ...]  # stages
    stages: float
    stages_low: float | None
    stages_high: float | None
    step: float
    step_low: float | None
    step_high: float | None
    share: float | None  # of the step's difference; None where the step did not differ
    explained: bool | None  # None: nothing to explain, or too noisy to tell
    detail: str


@dataclass(frozen=True)
class Weighted:
    """The gain over all requests of a traffic within the measured contexts: the arm's time over the baseline's.

    `low` and `high` hold together with the intervals of the contexts. `batch`: requests of a case; `batches`: the share
    of so many drawn from the traffic in which all are at contexts where the fast path was taken, which a rule over the
    whole batch needs. None where no fast path was taken.
    """

    traffic: str
    source: str
    metric: str
    ratio: float
    low: float | None
    high: float | None
    on_fast_path: float  # share of its requests
    covered: float  # share of its requests within the contexts that were measured
    counted: str = "requests"  # what shares are of: requests or decode steps
    batch: int = 1
    batches: float | None = None


@dataclass(frozen=True)
class Applies:
    """Where an arm pays. `break_even`: the context at which its ratio crosses 1, between two that were measured."""

    workload: str
    arm: str
    fast_path: tuple[int, ...]  # contexts at which it was taken
    break_even: float | None
    weighted: tuple[Weighted, ...]
    mode: str = ""
    measured: tuple[int, ...] = ()  # contexts
    faster: tuple[int, ...] = ()  # contexts with this verdict
    between: tuple[int, int] | None = None  # the contexts around the break-even


@dataclass(frozen=True)
class ClaimOutcome:
    """One figure of a claim beside what was found. `others`: the claim's other figures, which have no others."""

    claim: str
    source: str
    metric: str
    claimed: float  # relative change of time, -0.034 is 3.4 % less
    found: float | None
    found_low: float | None
    found_high: float | None
    verdict: str  # REPRODUCED, CONTRADICTED, NOT DECIDABLE HERE
    reason: str
    differs: tuple[str, ...]  # of the claim's setting
    title: str = ""
    figure: str = ""  # what was published
    scope: str = ""  # of the figure: model, or a stage
    measured: str = ""  # what was timed here: arm, case, scope, layers
    others: tuple["ClaimOutcome", ...] = ()


@dataclass(frozen=True)
class Projected:
    """What a layer's difference would be worth in a whole model, from a benchmark of that model.

    `low` and `high` are None where nothing can be said, and `detail` says why.
    """

    case: str
    arm: str
    metric: str
    model_seconds: float  # of the benchmark
    low: float | None  # relative change of time
    high: float | None
    detail: str


@dataclass(frozen=True)
class GateOutcome:
    held: bool
    lines: tuple[str, ...]  # what was demanded and what was found


@dataclass(frozen=True)
class Findings:
    """Sections that a run may have; empty or None where it has not."""

    machine: Machine | None = None
    compiles: tuple[Compiles, ...] = ()
    roof: Roof | None = None
    breakdowns: tuple[Breakdown, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    applies: tuple[Applies, ...] = ()
    claim: ClaimOutcome | None = None
    projected: tuple[Projected, ...] = ()
    gate: GateOutcome | None = None
    self_test: SelfTest | None = None
