"""What an experiment found besides ratios: what else happened, what explains it, where it applies, what it is worth.

Every time is in seconds, every rate in units a second. None: not known here.
"""

from dataclasses import dataclass

from pipeline.evidence.costs import Breakdown, Explanation, Roof
from pipeline.evidence.detected import SelfTest


@dataclass(frozen=True)
class Machine:
    """The machine while it was timed. Ranges are (lowest, highest) over the edges of all blocks.

    `warnings`: what a reader must know before believing a figure, such as another process on the device.
    """

    blocks: int  # of all cases; neither those of stages alone nor those of an attempt that was given up
    void_blocks: int  # repeated, because the device was throttled or a kernel was compiled in them
    sm_clock_mhz: tuple[float, float] | None
    memory_clock_mhz: tuple[float, float] | None
    temperature_c: tuple[float, float] | None
    power_w: tuple[float, float] | None
    throttled_by: tuple[str, ...] | None  # None: the device does not tell
    load: tuple[float, float] | None  # running processes, one-minute average
    cpu_mhz: tuple[float, float] | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Compiles:
    """What an arm compiled in all cases. A variant is one compiled form of a kernel.

    `break_even_launches`: launches after which what the arm saves a launch against the baseline has paid for what it
    compiles more; None where it saves nothing or `unknown` says why that cannot be told, 0 where it does not compile
    more. A launch is a step of what was timed.
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
    unknown: str = ""


@dataclass(frozen=True)
class Weighted:
    """The gain over all requests of a traffic within the measured contexts: the arm's time over the baseline's.

    `low` and `high` hold together with the intervals of the contexts. `batch`: requests of a case; `batches`: the share
    of so many drawn from the traffic in which all are at contexts where the fast path was taken, which a rule over the
    whole batch needs. None where no fast path was taken, and both shares where none can be seen.
    """

    traffic: str
    source: str
    metric: str
    ratio: float
    low: float | None
    high: float | None
    on_fast_path: float | None  # share of its requests
    covered: float  # share of its requests within the contexts that were measured
    counted: str = "requests"  # what shares are of: requests or decode steps
    batch: int = 1
    batches: float | None = None


@dataclass(frozen=True)
class Crossing:
    """Two neighbours, of the contexts that are decided, of which the arm is FASTER at one only.

    `context`: where its ratio crosses 1 between them; None where it is the SAME at the other, for nothing tells where.
    """

    left: int
    right: int
    context: float | None


@dataclass(frozen=True)
class Applies:
    """Where an arm pays. `fast_path`: contexts at which it was taken; None where the host cannot see whether it was."""

    workload: str
    arm: str
    fast_path: tuple[int, ...] | None
    crossings: tuple[Crossing, ...]
    weighted: tuple[Weighted, ...]
    mode: str = ""
    measured: tuple[int, ...] = ()  # contexts
    faster: tuple[int, ...] = ()  # contexts with this verdict
    undecided: tuple[int, ...] = ()  # likewise


@dataclass(frozen=True)
class ClaimOutcome:
    """One figure of a claim beside what was found. `others`: the claim's other figures, which have no others.

    `published` and `times`: seconds before and after, of the baseline and of the arm; None where there are none.
    """

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
    bound: str = ""  # `claimed` is the least or the most: at least, at most
    published: tuple[float, float] | None = None
    times: tuple[float, float] | None = None
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
    """Sections that a run may have; empty or None where it has not.

    `left_out`: what was asked for and is not in the run, a line each: cases, their breakdowns, a traffic.
    `broken`: sections that could not be made, and why.
    """

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
    left_out: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
