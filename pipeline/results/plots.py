"""One picture for each workload and metric: times above, ratios to the baseline below, over the same contexts.

Contexts stand at even distances, because those that matter most lie next to each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pipeline.evidence.summary import ArmSummary, CaseSummary, Comparison, Summary
from pipeline.results.files import replacing
from pipeline.results.palette import BASELINE, colours
from pipeline.results.table import UNITS, by_workload, mean_key, shown_metrics
from pipeline.schema import Config

MARKERS = "osD^vP"
PER_SECOND = {"ms": 1e3, "us": 1e6}
GAP = (math.nan, math.nan, math.nan)
INK = "#333333"
BAND = "#E4E4E4"


@dataclass(frozen=True)
class _Curve:
    """How one arm is drawn: aside from the others by `offset`, so that intervals do not hide each other."""

    arm: str
    colour: str
    marker: str
    offset: float

    def draw(self, axes: Axes, points: Sequence[tuple[float, float, float]]) -> None:
        """points: value, length of the interval below and above it; NaN breaks the line."""
        values, below, above = zip(*points, strict=True)
        axes.errorbar(
            [place + self.offset for place in range(len(points))],
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


def draw_plots(summary: Summary, config: Config, folder: Path) -> list[Path]:
    """Writes `plots/<workload>-<metric>.png` and returns the paths. The control arm is the noise band."""
    paths = []
    for workload, cases in by_workload(summary).items():
        for metric in shown_metrics(cases[0], config.workloads[workload]):
            path = folder / "plots" / f"{workload}-{metric}.png"
            figure = _figure(summary, cases, metric, f"{config.name}: {workload}")
            with replacing(path) as draft:
                FigureCanvasAgg(figure).print_png(draft)
            paths.append(path)
    return paths


def _figure(summary: Summary, cases: Sequence[CaseSummary], metric: str, title: str) -> Figure:
    curves = _curves(summary, len(cases))
    figure = Figure(figsize=(max(6.4, 0.8 * len(cases) + 2), 6.4), dpi=150, layout="constrained")
    compared = any(metric in case.arms[curve.arm].comparisons for case in cases for curve in curves)
    times, *ratios = figure.subplots(
        1 + compared, 1, sharex=True, squeeze=False, height_ratios=(3, 2)[: 1 + compared]
    ).flat
    _draw_times(times, cases, curves, metric)
    for axes in ratios:
        _draw_ratios(axes, cases, curves[1:], metric)
    for axes in (times, *ratios):
        _tidy(axes)
    bottom = figure.axes[-1]
    bottom.set_xticks(range(len(cases)), [f"{case.context:,}" for case in cases])
    bottom.set_xlim(-0.5, len(cases) - 0.5)
    bottom.set_xlabel("context, tokens" + (" (evenly spaced)" if len(cases) > 1 else ""), color=INK)
    what = f"{summary.scope}, layers {summary.layers}, tp {summary.tp}, {cases[0].rounds} rounds"
    times.set_title(f"{title} ({what})", fontsize=10, color=INK, loc="left")
    columns = max(1, 80 // (8 + max(len(curve.arm) for curve in curves)))
    named = times.get_legend_handles_labels()
    figure.legend(*named, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    return figure


def _curves(summary: Summary, cases: int) -> list[_Curve]:
    """The baseline first."""
    drawn = {arm: colour for arm, colour in colours(summary).items() if arm != summary.control}
    arms = [summary.baseline, *(arm for arm in drawn if arm != summary.baseline)]
    width = min(0.12, 0.02 * cases, 0.6 / len(arms)) if cases > 1 else 0.7 / len(arms)
    return [
        _Curve(arm, drawn[arm], MARKERS[number % len(MARKERS)], width * (number - (len(arms) - 1) / 2))
        for number, arm in enumerate(arms)
    ]


def _draw_times(axes: Axes, cases: Sequence[CaseSummary], curves: Sequence[_Curve], metric: str) -> None:
    for curve in curves:
        curve.draw(axes, [_mean(case.arms[curve.arm], metric) for case in cases])
        curve.draw_failures(axes, [place for place, case in enumerate(cases) if not case.arms[curve.arm].check.passed])
    name = metric.upper() if metric != "step" else "time of a call"
    axes.set_ylabel(f"{name}, {UNITS[metric].replace('us', 'µs')}\nmean and its interval", color=INK)


def _draw_ratios(axes: Axes, cases: Sequence[CaseSummary], curves: Sequence[_Curve], metric: str) -> None:
    found = {curve: [case.arms[curve.arm].comparisons.get(metric) for case in cases] for curve in curves}
    known = [(place, one) for column in found.values() for place, one in enumerate(column) if one]
    for place, comparison in dict(known).items():
        low, high = _band(comparison)
        axes.bar(place, high - low, 1, low, color=BAND, linewidth=0, zorder=0)
    axes.axhline(1, color=BASELINE, linewidth=1)
    for curve, column in found.items():
        curve.draw(axes, [_interval(comparison) if comparison else GAP for comparison in column])
    shaded = "noise" if any(comparison.noise is not None for _, comparison in known) else "margin"
    percent = f"{100 * known[0][1].confidence:g} %"
    axes.set_ylabel(f"time / baseline, {percent}\n← faster, shaded: {shaded}", color=INK)


def _mean(arm: ArmSummary, metric: str) -> tuple[float, float, float]:
    """In the metric's unit; without an interval the bars have no length."""
    if mean_key(metric) not in arm.metrics:
        return GAP
    mean, scale = arm.metrics[mean_key(metric)], PER_SECOND[UNITS[metric]]
    low, high = arm.intervals.get(metric, (mean / scale, mean / scale))
    return mean, max(0.0, mean - low * scale), max(0.0, high * scale - mean)


def _band(comparison: Comparison) -> tuple[float, float]:
    if comparison.noise is None:
        return 1 - comparison.margin, 1 + comparison.margin
    return 1 / (1 + comparison.noise), 1 + comparison.noise


def _interval(comparison: Comparison) -> tuple[float, float, float]:
    ratio, low, high = comparison.ratio, comparison.low, comparison.high
    return (ratio, 0, 0) if low is None or high is None else (ratio, ratio - low, high - ratio)


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#AAAAAA")
    axes.grid(axis="y", color="#EEEEEE", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9, length=3)
    axes.ticklabel_format(axis="y", useOffset=False, style="plain")
