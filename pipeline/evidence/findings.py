"""What an experiment found besides ratios: what else happened, what explains it, where it applies, what it is worth.

Every time is in seconds, every rate in units a second. None: not known here.
"""

from dataclasses import dataclass


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
    compiles more; None where it saves nothing, 0 where it does not compile more.
    """

    arm: str
    kernels: int
    variants: int
    seconds: float
    first_step: float
    break_even_launches: int | None
    by_kernel: dict[str, int]  # compiled variants


@dataclass(frozen=True)
class Roof:
    """Limits measured on this machine in the same run."""

    copy_bytes: float  # read plus write
    matrix_flops: float  # in the engine's dtype
    launch: float  # of an empty call


@dataclass(frozen=True)
class StageCost:
    """One stage of one arm in one step of a case, averaged over its steps and layers, timed alone."""

    stage: str
    calls: int  # in a step
    seconds: float  # of all its calls
    low: float | None
    high: float | None
    bytes: int
    flops: int
    limit: float  # the larger of bytes and FLOPs over the machine's rates
    bound_by: str  # bytes, flops or launch
    share: float  # of the step

    @property
    def achieved_bytes(self) -> float:
        return self.bytes / self.seconds

    @property
    def achieved_flops(self) -> float:
        return self.flops / self.seconds


@dataclass(frozen=True)
class Breakdown:
    """Where a step of an arm goes. `rest`: what the step takes beyond its stages."""

    case: str
    arm: str
    step: float
    stages: tuple[StageCost, ...]
    rest: float


@dataclass(frozen=True)
class Explanation:
    """Does what changed in the stages explain what changed in the step? Differences are candidate minus baseline."""

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
    """The gain over all requests of a traffic: the time of the arm over that of the baseline."""

    traffic: str
    source: str
    metric: str
    ratio: float
    low: float | None
    high: float | None
    on_fast_path: float  # share of its requests
    covered: float  # share of its requests within the contexts that were measured


@dataclass(frozen=True)
class Applies:
    """Where an arm pays. `break_even`: the context at which its ratio crosses 1, between two that were measured."""

    workload: str
    arm: str
    fast_path: tuple[int, ...]  # contexts at which it was taken
    break_even: float | None
    weighted: tuple[Weighted, ...]


@dataclass(frozen=True)
class ClaimOutcome:
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


@dataclass(frozen=True)
class Projected:
    """What a layer's difference would be worth in a whole model, from a benchmark of that model."""

    case: str
    arm: str
    metric: str
    model_seconds: float  # of the benchmark
    low: float  # relative change of time
    high: float
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
