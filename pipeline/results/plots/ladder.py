"""One picture for each workload and metric: times above, ratios to the baseline below, over the same contexts.

Contexts stand at even distances, because those that matter most lie next to each other.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.evidence.summary import ArmSummary, CaseSummary, Comparison, Summary
from pipeline.results.plots.palette import BAND, BASELINE, INK, colours
from pipeline.results.plots.picture import Picture, sheet, subject, tidy
from pipeline.results.table import UNITS, by_workload, mean_key, shown_metrics
from pipeline.schema import Config

MARKERS = "osD^vP"
PER_SECOND = {"ms": 1e3, "us": 1e6}
GAP = (math.nan, math.nan, math.nan)
LEAST_RATIOS = 0.15  # how much of the axis is drawn beyond the ratios, if their intervals go so far
LEAST_TIMES = 0.25


@dataclass(frozen=True)
class Curve:
    """How one arm is drawn: aside from the others by `offset`, so that intervals do not hide each other."""

    arm: str
    colour: str
    marker: str
    offset: float

    def draw(self, axes: Axes, points: Sequence[tuple[float, float, float]], fast: Sequence[bool]) -> None:
        """points: value, length of the interval below and above it; NaN breaks the line. Filled where `fast`."""
        values, below, above = zip(*points, strict=True)
        places = [place + self.offset for place in range(len(points))]
        axes.errorbar(
            places,
            values,
            yerr=(below, above),
            color=self.colour,
            marker=self.marker,
            label=self.arm,
            markersize=5,
            linewidth=1.2,
            capsize=2.5,
            capthick=1.2,
        )
        slow = [place for place, taken in enumerate(fast) if not taken]
        axes.plot(
            [places[place] for place in slow],
            [values[place] for place in slow],
            linestyle="",
            marker=self.marker,
            markersize=2.2,
            color="white",
            zorder=3,
        )

    def draw_failures(self, axes: Axes, places: Sequence[int]) -> None:
        for place in places:
            axes.annotate(
                "✕ failed",
                (place + self.offset, 0.02),
                xycoords=axes.get_xaxis_transform(),
                ha="center",
                fontsize=8,
                color=self.colour,
            )


def ladders(summary: Summary, config: Config, device: str) -> list[Picture]:
    """`<workload>-<metric>`. The control arm is the noise band."""
    return [
        Picture(
            f"{workload}-{metric}",
            "times",
            f"{metric.upper()} of {workload} and its ratio to {summary.baseline} against context",
            figure(summary, cases, metric, f"{config.name}, {_named(cases[0])}: {subject(summary, config, device)}"),
        )
        for workload, cases in by_workload(summary).items()
        for metric in shown_metrics(cases)
    ]


def figure(summary: Summary, cases: Sequence[CaseSummary], metric: str, title: str) -> Figure:
    curves = _curves(summary, len(cases))
    drawn = sheet(max(6.4, 0.8 * len(cases) + 2), 6.4 if len(cases) > 1 else 5.2)
    compared = any(metric in case.arms[curve.arm].comparisons for case in cases for curve in curves)
    times, *ratios = drawn.subplots(
        1 + compared, 1, sharex=True, squeeze=False, height_ratios=(1, 1)[: 1 + compared]
    ).flat
    _draw_times(times, cases, curves, metric)
    for axes in ratios:
        _draw_ratios(axes, cases, curves[1:], metric)
    for axes in (times, *ratios):
        tidy(axes)
        axes.ticklabel_format(axis="y", useOffset=False, style="plain")
    bottom = drawn.axes[-1]
    bottom.set_xticks(range(len(cases)), [case.label for case in cases])
    bottom.set_xlim(-0.5, len(cases) - 0.5)
    bottom.set_xlabel(_under(cases), color=INK)
    times.set_title(title, fontsize=10, color=INK, loc="left")
    columns = max(1, 80 // (8 + max(len(curve.arm) for curve in curves)))
    named = times.get_legend_handles_labels()
    drawn.legend(*named, loc="outside lower center", ncols=columns, frameon=False, fontsize=9, labelcolor=INK)
    return drawn


def _named(case: CaseSummary) -> str:
    return f"{case.workload} ({case.mode})" if case.mode else case.workload


def _under(cases: Sequence[CaseSummary]) -> str:
    paths = [arm.path for case in cases for arm in case.arms.values()]
    hollow = "\nhollow: the arm has a fast path and did not take it" if any(path.expected for path in paths) else ""
    return f"context, tokens{' (evenly spaced)' if len(cases) > 1 else ''}{hollow}"


def _curves(summary: Summary, cases: int) -> list[Curve]:
    """The baseline first."""
    drawn = {arm: colour for arm, colour in colours(summary).items() if arm != summary.control}
    arms = [summary.baseline, *(arm for arm in drawn if arm != summary.baseline)]
    width = min(0.12, 0.02 * cases, 0.6 / len(arms)) if cases > 1 else 0.7 / len(arms)
    return [
        Curve(arm, drawn[arm], MARKERS[number % len(MARKERS)], width * (number - (len(arms) - 1) / 2))
        for number, arm in enumerate(arms)
    ]


def _draw_times(axes: Axes, cases: Sequence[CaseSummary], curves: Sequence[Curve], metric: str) -> None:
    points = {curve: [_mean(case.arms[curve.arm], metric) for case in cases] for curve in curves}
    for curve in curves:
        curve.draw(axes, points[curve], _fast(cases, curve))
        curve.draw_failures(axes, [place for place, case in enumerate(cases) if not case.arms[curve.arm].check.passed])
    highest = max((value for column in points.values() for value, *_ in column if value == value), default=1.0)
    bottom, top = view([point for column in points.values() for point in column], LEAST_TIMES * highest)
    axes.set_ylim(max(0.0, bottom), top)
    name = metric.upper() if metric != "step" else "time of a call"
    axes.set_ylabel(f"{name}, {UNITS[metric].replace('us', 'µs')}\nmean and its interval", color=INK)


def _draw_ratios(axes: Axes, cases: Sequence[CaseSummary], curves: Sequence[Curve], metric: str) -> None:
    found = {curve: [case.arms[curve.arm].comparisons.get(metric) for case in cases] for curve in curves}
    known = [(place, one) for column in found.values() for place, one in enumerate(column) if one]
    for place, comparison in dict(known).items():
        low, high = band(comparison)
        axes.bar(place, high - low, 1, low, color=BAND, linewidth=0, zorder=0)
    axes.axhline(1, color=BASELINE, linewidth=1)
    for curve, column in found.items():
        curve.draw(axes, [_interval(comparison) if comparison else GAP for comparison in column], _fast(cases, curve))
    edges = [(1.0, *(abs(edge - 1) for edge in band(comparison))) for _, comparison in known]
    axes.set_ylim(*view([*(_interval(comparison) for _, comparison in known), *edges], LEAST_RATIOS))
    shaded = "noise" if any(comparison.noise is not None for _, comparison in known) else "margin"
    axes.set_ylabel(f"time / baseline, joint intervals\n← faster, shaded: {shaded}", color=INK)


def view(points: Iterable[tuple[float, float, float]], least: float) -> tuple[float, float]:
    """Limits of an axis that show all values; of their intervals as much as leaves the values apart."""
    seen = [point for point in points if not math.isnan(point[0])]
    if not seen:
        return 0.0, 1.0
    low, high = min(value for value, *_ in seen), max(value for value, *_ in seen)
    room = max(high - low, least)
    bottom = max(low - room, min(value - below for value, below, _ in seen))
    top = min(high + room, max(value + above for value, _, above in seen))
    edge = 0.06 * max(top - bottom, 0.1 * least)
    return bottom - edge, top + edge


def band(comparison: Comparison) -> tuple[float, float]:
    if comparison.noise is None:
        return 1 - comparison.margin, 1 + comparison.margin
    return 1 / (1 + comparison.noise), 1 + comparison.noise


def _fast(cases: Sequence[CaseSummary], curve: Curve) -> list[bool]:
    paths = [case.arms[curve.arm].path for case in cases]
    return [path.skipped_rows > 0 or not path.expected for path in paths]


def _mean(arm: ArmSummary, metric: str) -> tuple[float, float, float]:
    """In the metric's unit; without an interval the bars have no length."""
    if mean_key(metric) not in arm.metrics:
        return GAP
    mean, scale = arm.metrics[mean_key(metric)], PER_SECOND[UNITS[metric]]
    low, high = arm.intervals.get(metric, (mean / scale, mean / scale))
    return mean, max(0.0, mean - low * scale), max(0.0, high * scale - mean)


def _interval(comparison: Comparison) -> tuple[float, float, float]:
    ratio, low, high = comparison.ratio, comparison.low, comparison.high
    return (ratio, 0, 0) if low is None or high is None else (ratio, ratio - low, high - ratio)
