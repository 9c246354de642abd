"""What an experiment found, as numbers and verdicts that can be saved and compared."""

from dataclasses import dataclass, field

from pipeline.evidence.findings import Findings


@dataclass(frozen=True)
class Check:
    """Whether an arm computes what the reference computes. `error` is the relative L2 norm of its worst step."""

    passed: bool
    error: float
    tolerance: float
    detail: str
    ran: bool = True  # False: the arm raised, and has no error


@dataclass(frozen=True)
class Comparison:
    """The time of an arm over that of the baseline, paired by round; below 1 the arm is faster.

    `low` and `high` bound the ratio; None below `minimum_samples["interval"]` blocks. `noise` is relative (0.01: 1 %),
    None without a control arm or without an interval of it. `confidence` is that of the interval, after correction for
    the number of comparisons. `rounds_needed` would decide an UNDECIDED pair; None where nothing tells. `blocks` are
    the log ratios of blocks whose mean is that of `ratio`.
    """

    metric: str
    ratio: float
    low: float | None
    high: float | None
    verdict: str  # FASTER, SLOWER, SAME, UNDECIDED
    noise: float | None
    margin: float
    confidence: float
    rounds: int
    rounds_needed: int | None = None
    blocks: tuple[float, ...] = ()


@dataclass(frozen=True)
class FastPath:
    """Proof of path in one pass over the steps; rows are counted once per csa layer.

    `fast_steps` of `steps` skipped the scoring of at least one row; `steps` counts those that had rows to score.
    `expected` is False where the arm has no such path.
    """

    skipped_rows: int
    scorable_rows: int
    fast_steps: int
    steps: int
    expected: bool


@dataclass(frozen=True)
class ArmSummary:
    """`metrics` has vLLM's JSON keys, over all rounds; `undefined` says why a key is not in it.

    An arm that failed its check has neither metrics nor comparisons. `comparisons` is keyed by ttft, tpot, itl, e2el
    and duration, or by step for a stage; the baseline has none. `undefined["ratio_ttft"]` says why one is missing.
    `intervals` bound the mean over rounds of the same figures, in seconds.
    """

    arm: str
    check: Check
    metrics: dict[str, float]
    undefined: dict[str, str]
    path: FastPath
    comparisons: dict[str, Comparison]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseSummary:
    """`primary` is the metric that the case is judged by: tpot, ttft or step. Counts are those of one round."""

    case: str
    workload: str
    context: int
    digest: str
    scope: str
    primary: str
    arms: dict[str, ArmSummary]  # in the order of the experiment, baseline first
    requests: int
    steps: int
    rounds: int
    warmup_rounds: int
    mode: str = ""  # how it was timed, such as "graph, cold L2"; empty where an experiment has one way only
    clock_mhz: float | None = None  # median of the device while the case was timed
    outliers: dict[str, int] = field(default_factory=dict)  # rounds of an arm far from its others: not dropped
    void: str = ""  # why no round of it should count, though all do for want of others


@dataclass(frozen=True)
class Overall:
    """An arm over all contexts of a workload in one mode: the geometric mean of its ratios."""

    workload: str
    mode: str
    arm: str
    comparison: Comparison


@dataclass(frozen=True)
class Summary:
    """The whole experiment. `layers` describes the stack, such as "csa" or "4 of 43"."""

    cases: tuple[CaseSummary, ...]
    baseline: str
    control: str | None
    scope: str
    layers: str
    tp: int
    percentile_method: str
    interval_method: str
    minimum_samples: dict[str, int]
    headline: str
    overall: tuple[Overall, ...] = ()
    findings: Findings = field(default_factory=Findings)
