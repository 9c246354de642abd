"""The cells of the final table, arm by context, for the terminal and for Markdown alike."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.evidence.summary import ArmSummary, CaseSummary, Comparison, FastPath, Summary
from pipeline.schema import Config, Workload

UNITS = {"ttft": "ms", "tpot": "ms", "step": "us"}
THROUGHPUTS = {"ttft": "total_token_throughput", "tpot": "output_throughput"}
ABSENT = "-"


@dataclass(frozen=True)
class Row:
    context: str  # empty where it is that of the row above
    arm: str
    verdict: str
    value: str
    ratio: str
    fast_path: str
    check: str
    throughput: str


@dataclass(frozen=True)
class Table:
    """One workload under one metric."""

    workload: str
    metric: str  # ttft, tpot or step
    confidence: float
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        return f"{self.workload}: {self.value_header}"

    @property
    def value_header(self) -> str:
        return f"{self.metric.upper()} {UNITS[self.metric]}" if self.metric != "step" else "µs a call"

    @property
    def ratio_header(self) -> str:
        return f"ratio [{100 * self.confidence:g} %]"


def tables(summary: Summary, config: Config) -> tuple[Table, ...]:
    return tuple(
        Table(workload, metric, config.measure.confidence, _rows(summary, cases, metric))
        for workload, cases in by_workload(summary).items()
        for metric in shown_metrics(cases[0], config.workloads[workload])
    )


def by_workload(summary: Summary) -> dict[str, list[CaseSummary]]:
    """Cases by ascending context."""
    found: dict[str, list[CaseSummary]] = {}
    for case in sorted(summary.cases, key=lambda case: case.context):
        found.setdefault(case.workload, []).append(case)
    return {name: found[name] for name in dict.fromkeys(case.workload for case in summary.cases)}


def workload_digest(cases: Sequence[CaseSummary]) -> str:
    """One for all cases of a workload; equal where the same was asked."""
    return hashlib.sha256("".join(case.digest for case in cases).encode()).hexdigest()[:16]


def shown_metrics(case: CaseSummary, workload: Workload) -> tuple[str, ...]:
    """The metric the case is judged by, and TTFT beside TPOT where a part of the mix has a prompt to prefill."""
    prefills = any(part.cached_len.kind != "all" for part in workload.mix)
    return ("ttft", "tpot") if case.primary == "tpot" and prefills else (case.primary,)


def mean_key(metric: str) -> str:
    """Of the metric in `ArmSummary.metrics`."""
    return f"mean_{metric}_{UNITS[metric]}"


def significant(value: float, digits: int = 4) -> str:
    """Thousands separated, never in scientific notation: 12.31, 0.04512, 1,235."""
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:,.{max(digits - 1 - exponent, 0)}f}"


def _rows(summary: Summary, cases: list[CaseSummary], metric: str) -> tuple[Row, ...]:
    return tuple(
        _row(summary, arm, metric, f"{case.context:,}" if number == 0 else "")
        for case in cases
        for number, arm in enumerate(case.arms.values())
    )


def _row(summary: Summary, arm: ArmSummary, metric: str, context: str) -> Row:
    comparison = arm.comparisons.get(metric)
    return Row(
        context=context,
        arm=arm.arm,
        verdict=_verdict(summary, arm, comparison),
        value=_number(arm.metrics.get(mean_key(metric))),
        ratio=_ratio(comparison),
        fast_path=_fast_path(arm.path),
        check=f"ok {arm.check.error:.0e}" if arm.check.passed else "FAILED" if arm.check.ran else "RAISED",
        throughput=_number(arm.metrics.get(THROUGHPUTS.get(metric, ""))),
    )


def _number(value: float | None) -> str:
    return ABSENT if value is None or not math.isfinite(value) else significant(value)


def _verdict(summary: Summary, arm: ArmSummary, comparison: Comparison | None) -> str:
    if not arm.check.passed:
        return "FAILED"
    if arm.arm == summary.baseline:
        return "baseline"
    if comparison is None:
        return ABSENT
    if arm.arm == summary.control:
        return ABSENT if comparison.noise is None else f"±{100 * comparison.noise:.1f} %"
    return comparison.verdict


def _ratio(comparison: Comparison | None) -> str:
    if comparison is None:
        return ABSENT
    if comparison.low is None or comparison.high is None:
        return f"{comparison.ratio:.3f}"
    return f"{comparison.ratio:.3f} [{comparison.low:.3f}, {comparison.high:.3f}]"


def _fast_path(path: FastPath) -> str:
    if not path.expected:
        return ABSENT
    share = path.skipped_rows / path.scorable_rows if path.scorable_rows else 0
    rows = f" ({100 * share:.0f} %)" if 0 < share < 1 else ""
    return f"{path.fast_steps}/{path.steps}{rows}"
