"""The cells of the final table, arm by context, for the terminal and for Markdown alike."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import floor

from pipeline.evidence.summary import ArmSummary, CaseSummary, Comparison, FastPath, Summary
from pipeline.schema import Config

UNITS = {"ttft": "ms", "tpot": "ms", "step": "us"}
MOST_ROUNDS = 10  # times those that ran: beyond that nobody waits for a decision
WIDEST = 100.0  # of a noise floor or an interval; what is wider says only that there are too few blocks
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
    needed: str = ""  # why it is not decided


@dataclass(frozen=True)
class Table:
    """One workload in one mode under one metric."""

    workload: str
    mode: str
    metric: str  # ttft, tpot or step
    confidence: str  # of all intervals at once
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        mode = f" ({self.mode})" if self.mode else ""
        return f"{self.workload}{mode}: {self.value_header}"

    @property
    def value_header(self) -> str:
        return f"{self.metric.upper()} {UNITS[self.metric]}" if self.metric != "step" else "µs a call"

    @property
    def ratio_header(self) -> str:
        return f"ratio [{self.confidence} jointly]"


def tables(summary: Summary, config: Config) -> tuple[Table, ...]:
    """The last rows of one are those over all its contexts."""
    return tuple(
        Table(cases[0].workload, cases[0].mode, metric, f"{100 * config.measure.confidence:g} %", rows)
        for cases in by_workload(summary).values()
        for metric in shown_metrics(cases)
        for rows in [(*_rows(summary, cases, metric), *_means(summary, cases[0], metric))]
    )


def by_workload(summary: Summary) -> dict[str, list[CaseSummary]]:
    """Cases by ascending context. Each mode is a ladder of its own, such as decode.graph-cold."""
    found: dict[str, list[CaseSummary]] = {_ladder(case): [] for case in summary.cases}
    for case in sorted(summary.cases, key=lambda case: case.context):
        found[_ladder(case)].append(case)
    return found


def workload_digest(cases: Sequence[CaseSummary]) -> str:
    """One for all cases of a workload; equal where the same was asked."""
    return hashlib.sha256("".join(case.digest for case in cases).encode()).hexdigest()[:16]


def shown_metrics(cases: Sequence[CaseSummary]) -> tuple[str, ...]:
    """Those with a verdict in any of the cases."""
    return tuple(dict.fromkeys(metric for case in cases for metric in case.judged or (case.primary,)))


def mean_key(metric: str) -> str:
    """Of the metric in `ArmSummary.metrics`."""
    return f"mean_{metric}_{UNITS[metric]}"


def significant(value: float, digits: int = 4) -> str:
    """Thousands separated, never in scientific notation: 12.31, 0.04512, 1,235."""
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:,.{max(digits - 1 - exponent, 0)}f}"


def confidence(comparisons: Iterable[Comparison]) -> str:
    """Of their intervals: `99.4 %`, or the least of them. Never rounded up."""
    found = sorted({floor(1e4 * one.confidence + 1e-6) / 1e2 for one in comparisons})
    if not found:
        return ABSENT
    return f"{'≥ ' if len(found) > 1 else ''}{found[0]:g} %"


def _ladder(case: CaseSummary) -> str:
    """Where there are several modes the name of a case ends in that of its mode."""
    return f"{case.workload}.{case.case.rpartition('.')[2]}" if case.mode else case.workload


def _rows(summary: Summary, cases: list[CaseSummary], metric: str) -> tuple[Row, ...]:
    return tuple(
        _row(summary, arm, metric, case.label if number == 0 else "")
        for case in cases
        for number, arm in enumerate(case.arms.values())
    )


def _means(summary: Summary, first: CaseSummary, metric: str) -> Iterator[Row]:
    found = [one for one in summary.overall if (one.workload, one.mode) == (first.workload, first.mode)]
    for number, one in enumerate(one for one in found if one.comparison.metric == metric):
        yield Row(
            context="all" if number == 0 else "",
            arm=one.arm,
            verdict=_judged(summary, one.arm, one.comparison),
            value=ABSENT,
            ratio=_ratio(one.comparison),
            fast_path=ABSENT,
            check=ABSENT,
            throughput=ABSENT,
            needed=_needed(summary, one.comparison, one.arm),
        )


def _row(summary: Summary, arm: ArmSummary, metric: str, context: str) -> Row:
    comparison = arm.comparisons.get(metric)
    return Row(
        context=context,
        arm=arm.arm,
        verdict=_verdict(summary, arm, comparison),
        value=_number(arm.metrics.get(mean_key(metric))),
        ratio=_ratio(comparison),
        fast_path=_fast_path(arm.paths.get(metric, arm.path)),
        check=f"ok ({arm.check.error:.0e})" if arm.check.passed else "FAILED" if arm.check.ran else "RAISED",
        throughput=_number(arm.metrics.get(f"{metric}_step_throughput")),
        needed=_needed(summary, comparison, arm.arm),
    )


def _number(value: float | None) -> str:
    return ABSENT if value is None or not math.isfinite(value) else significant(value)


def _verdict(summary: Summary, arm: ArmSummary, comparison: Comparison | None) -> str:
    if not arm.check.passed:
        return "FAILED"
    if arm.arm == summary.baseline:
        return "baseline"
    return ABSENT if comparison is None else _judged(summary, arm.arm, comparison)


def noise(share: float) -> str:
    return f"±{100 * share:.1f} %" if share <= WIDEST else "too few blocks"


def _judged(summary: Summary, arm: str, comparison: Comparison) -> str:
    if arm == summary.control:
        return ABSENT if comparison.noise is None else noise(comparison.noise)
    return comparison.verdict


def _needed(summary: Summary, comparison: Comparison | None, arm: str) -> str:
    if comparison is None or comparison.verdict != "UNDECIDED" or arm == summary.control or comparison.low is None:
        return ""
    if comparison.rounds_needed and comparison.rounds_needed <= MOST_ROUNDS * comparison.rounds:
        return f"{comparison.rounds_needed:,} rounds"
    if comparison.noise is not None and (comparison.high < 1 or comparison.low > 1):
        return f"noise ±{100 * comparison.noise:.0f} %" if comparison.noise <= WIDEST else "too few blocks"
    return "too noisy" if comparison.rounds_needed else ""


def _ratio(comparison: Comparison | None) -> str:
    if comparison is None:
        return ABSENT
    if comparison.low is None or comparison.high is None or comparison.high - 1 > WIDEST:
        return f"{comparison.ratio:.3f}"
    return f"{comparison.ratio:.3f} [{comparison.low:.3f}, {comparison.high:.3f}]"


def _fast_path(path: FastPath) -> str:
    if not path.expected:
        return ABSENT
    share = path.skipped_rows / path.scorable_rows if path.scorable_rows else 0
    rows = f" ({100 * share:.0f} %)" if 0 < share < 1 else ""
    return f"{path.fast_steps}/{path.steps}{rows}"
