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
    the log ratios of blocks whose mean is that of `ratio`. `bias` is the part of `noise` by which the control surely
    differs from the baseline: an arm that is within the margin only without it is not the SAME.
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
    bias: float = 0.0


@dataclass(frozen=True)
class FastPath:
    """Proof of path in one pass over the steps that a metric is made of; rows are counted once per csa layer.

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

    An arm that failed its check has neither metrics nor comparisons. `comparisons` is keyed by the case's `judged`
    metrics; the baseline has none. `undefined["ratio_ttft"]` says why one is missing. `ratios` are those of metrics
    that are not judged, such as itl, e2el and duration: times over the baseline's, without an interval. `intervals`
    bound the mean over rounds of all these figures, in seconds. `path` is over the steps of the metric that the case is
    judged by first, `paths` has one for each judged metric, and `<metric>_step_throughput` is over the same steps.
    """

    arm: str
    check: Check
    metrics: dict[str, float]
    undefined: dict[str, str]
    path: FastPath
    comparisons: dict[str, Comparison]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    paths: dict[str, FastPath] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseSummary:
    """`primary` is the metric that the case is judged by first: tpot, ttft or step. Counts are those of one round.

    `judged`: all metrics with a verdict, which are those that are shown; () means the primary one alone. `late`:
    replayed steps whose launch the device did not wait for, so that their times hold what the host took. `tokens`:
    those of a step on average, padding left out.
    """

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
    void: str = ""  # how many rounds are sound and why others are void, where all count for want of sound ones
    tokens: int = 0
    judged: tuple[str, ...] = ()
    late: int = 0

    @property
    def label(self) -> str:
        """Its context, which of requests that differ is only the longest."""
        of_a_ladder = self.case.removeprefix(self.workload).startswith(f"-{self.context}")
        return f"{self.context:,}" if of_a_ladder else f"mix, up to {self.context:,}"


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
    headline: tuple[str, ...]  # clauses, what undermines the figures first
    overall: tuple[Overall, ...] = ()
    findings: Findings = field(default_factory=Findings)
