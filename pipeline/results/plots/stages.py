"""Where a step goes, stage by stage for every arm, and how far each stage is from the machine's limits."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from pipeline.evidence.costs import Breakdown, StageCost
from pipeline.evidence.summary import CaseSummary, Summary
from pipeline.results.plots.palette import BASELINE, INK, REST, STAGES, colours
from pipeline.results.plots.picture import Picture, sheet, subject, tidy
from pipeline.results.table import by_workload
from pipeline.schema import Config

MOST_CONTEXTS = 8
ROW = 0.24  # inches
MICRO = 1e6
TWO_DECADES = 100.0
MOST_STEPS = 2.5  # medians: a longer step leaves the picture, its length is written


def shares(summary: Summary, config: Config, device: str) -> list[Picture]:
    """`<workload>-stages`: a bar for each context and arm."""
    title = f"{config.name}, %s: where a step goes; {subject(summary, config, device)}"
    return [
        Picture(f"{ladder}-stages", "stages", f"Time of each stage in {ladder}", _shares(found, cases, title % ladder))
        for ladder, cases, found in _taken_apart(summary)
    ]


def limits(summary: Summary, config: Config, device: str) -> list[Picture]:
    """`<workload>-limits`: of the longest context."""
    drawn, title = colours(summary), f"{config.name}, %s at context %s: {subject(summary, config, device)}"
    return [
        Picture(
            f"{ladder}-limits",
            "stages",
            f"Measured time and limit of each stage in {ladder}",
            _limits(found[cases[-1].case], drawn, title % (ladder, f"{cases[-1].context:,}")),
        )
        for ladder, cases, found in _taken_apart(summary)
    ]


def _taken_apart(summary: Summary) -> Iterator[tuple[str, list[CaseSummary], dict[str, list[Breakdown]]]]:
    found: dict[str, list[Breakdown]] = {}
    for breakdown in summary.findings.breakdowns:
        found.setdefault(breakdown.case, []).append(breakdown)
    for ladder, cases in by_workload(summary).items():
        known = [case for case in cases if case.case in found]
        if known:
            yield ladder, known, found


def _shares(found: dict[str, list[Breakdown]], cases: Sequence[CaseSummary], title: str) -> Figure:
    chosen = [cases[at] for at in np.unique(np.linspace(0, len(cases) - 1, MOST_CONTEXTS).round().astype(int))]
    rows = [(case, breakdown) for case in chosen for breakdown in found[case.case]]
    figure = sheet(8, 1.7 + ROW * (len(rows) + 0.6 * len(chosen)))
    axes, places, place = figure.subplots(), [], 0.0
    for number, (case, breakdown) in enumerate(rows):
        place += 1.6 if number and rows[number - 1][0] is not case else 1.0
        places.append(place)
        _bar(axes, place, breakdown)
    steps = np.array([MICRO * (breakdown.step + max(0.0, -breakdown.rest)) for _, breakdown in rows])
    farthest = 1.03 * min(steps.max(), MOST_STEPS * float(np.median(steps)))
    axes.set_xlim(0, farthest)
    for at, step in zip(places, steps, strict=True):
        if step > farthest:
            axes.text(farthest, at, f"{step:,.0f} →", ha="right", va="center", fontsize=8, color=INK)
    names = [f"{breakdown.arm}  {f'{case.context:,}':>7}" for case, breakdown in rows]
    axes.set_yticks(places, names)
    axes.set_ylim(places[-1] + 0.8, places[0] - 0.8)
    axes.set_xlabel("µs of a step; every stage timed alone, rest: what the step takes beyond them", color=INK)
    tidy(axes, "x")
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    handles, labels = axes.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    order = [*(stage for stage in STAGES if stage in named), *(name for name in named if name not in STAGES)]
    figure.legend(
        [named[name] for name in order], order, loc="outside lower center", ncols=6, frameon=False, fontsize=9,
        labelcolor=INK,
    )  # fmt: skip
    return figure


def _bar(axes: Axes, place: float, breakdown: Breakdown) -> None:
    left = 0.0
    for stage in breakdown.whole:
        axes.barh(place, MICRO * stage.seconds, 0.8, left, color=STAGES.get(stage.stage, BASELINE), label=stage.stage)
        left += MICRO * stage.seconds
    if breakdown.rest > 0:
        axes.barh(place, MICRO * breakdown.rest, 0.8, left, color=REST, label="rest")
    axes.plot([MICRO * breakdown.step] * 2, [place - 0.4, place + 0.4], color=INK, linewidth=1.2, label="whole step")


def _limits(found: Sequence[Breakdown], drawn: dict[str, str], title: str) -> Figure:
    stages = list(dict.fromkeys((stage.within, stage.stage) for breakdown in found for stage in breakdown.stages))
    figure = sheet(8, 1.7 + 0.42 * len(stages))
    axes, apart = figure.subplots(), 0.6 / len(found)
    for number, breakdown in enumerate(found):
        offset = apart * (number - (len(found) - 1) / 2)
        places = [stages.index((stage.within, stage.stage)) + offset for stage in breakdown.stages]
        for place, stage in zip(places, breakdown.stages, strict=True):
            _distance(axes, place, stage, drawn[breakdown.arm])
        times = [MICRO * stage.seconds if stage.seconds > 0 else np.nan for stage in breakdown.stages]
        axes.plot(times, places, "o", color=drawn[breakdown.arm], markersize=5, label=breakdown.arm)
    axes.plot([], [], "|", color=INK, markersize=9, markeredgewidth=1.6, label="limit")
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < TWO_DECADES * low else (1.0,)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(stages)), [f"{within}: {stage}" if within else stage for within, stage in stages])
    axes.set_ylim(len(stages) - 0.5, -0.5)
    axes.set_xlabel("µs of a step, logarithmic: what is measured, and what its bytes or FLOPs need at best", color=INK)
    tidy(axes, "x")
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize=9, labelcolor=INK)
    return figure


def _distance(axes: Axes, place: float, stage: StageCost, colour: str) -> None:
    if stage.seconds <= 0 or stage.limit <= 0:
        return
    ends = [MICRO * stage.limit, MICRO * stage.seconds]
    axes.plot(ends, [place, place], color=colour, linewidth=1, alpha=0.6)
    axes.plot(ends[0], place, "|", color=INK, markersize=7, markeredgewidth=1.4)
