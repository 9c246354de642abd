"""Every arm over all contexts of a workload: one line each, from its interval's lower end to the upper."""

from pipeline.evidence.summary import Overall, Summary
from pipeline.results.plots.ladder import band
from pipeline.results.plots.palette import BAND, BASELINE, INK, colours
from pipeline.results.plots.picture import Picture, sheet, subject, tidy
from pipeline.schema import Config

VERDICT = 1.02  # where the verdict stands, in widths of the axes


def means(summary: Summary, config: Config, device: str) -> list[Picture]:
    """`overall`; none where no workload has several contexts."""
    found = [one for one in summary.overall if one.arm != summary.control]
    if not found:
        return []
    figure = sheet(8, 1.3 + 0.34 * len(found))
    axes, drawn = figure.subplots(), colours(summary)
    for place, one in enumerate(found):
        low, high = band(one.comparison)
        axes.barh(place, high - low, 1, low, color=BAND, linewidth=0, zorder=0)
        ends = [one.comparison.low or one.comparison.ratio, one.comparison.high or one.comparison.ratio]
        axes.plot(ends, [place, place], color=drawn[one.arm], linewidth=2.4, solid_capstyle="butt")
        axes.plot(one.comparison.ratio, place, "o", color=drawn[one.arm], markersize=6)
        axes.text(VERDICT, place, _said(one), transform=axes.get_yaxis_transform(), va="center", fontsize=9, color=INK)
    shaded = "noise" if any(one.comparison.noise is not None for one in found) else "margin"
    axes.axvline(1, color=BASELINE, linewidth=1)
    axes.set_yticks(range(len(found)), [_named(one) for one in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlabel(
        f"time / {summary.baseline}, geometric mean over contexts, {100 * config.measure.confidence:g} % jointly\n"
        f"← faster; shaded: {shaded}",
        color=INK,
        fontsize=9,
    )
    tidy(axes, "x")
    axes.set_title(f"{config.name}: {subject(summary, config, device)}", fontsize=10, color=INK, loc="left")
    return [Picture("overall", "times", f"Geometric mean of every arm over {summary.baseline}", figure)]


def _named(one: Overall) -> str:
    return f"{one.arm} · {one.workload}{f' ({one.mode})' if one.mode else ''}"


def _said(one: Overall) -> str:
    return f"{one.comparison.verdict} {100 * (one.comparison.ratio - 1):+.1f} %"
