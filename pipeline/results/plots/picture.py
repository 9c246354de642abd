"""A figure with its name, and what all figures have in common."""

import io
import re
from dataclasses import dataclass

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from pipeline.evidence.summary import Summary
from pipeline.results.plots.palette import FRAME, GRID, INK
from pipeline.schema import Config

TEXT = {"svg.fonttype": "none", "svg.hashsalt": "report", "font.family": ["DejaVu Sans"]}
SILENT = dict.fromkeys(("Creator", "Date", "Format", "Type"))
COLOUR = re.compile(r"(fill|stroke): #([0-9a-f]{6})")


@dataclass(frozen=True, eq=False)
class Picture:
    name: str  # of its file
    topic: str  # times or stages
    text: str  # for those who do not see it
    figure: Figure


def sheet(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def subject(summary: Summary, config: Config, device: str) -> str:
    tp = f", tp {summary.tp}" if summary.tp > 1 else ""
    return f"{config.model.name}, layers {summary.layers}{tp}, {summary.scope}, {device}"


def tidy(axes: Axes, along: str = "y") -> None:
    """`along`: the axis that has numbers on it."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FRAME)
    axes.grid(axis=along, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9, length=3)


def svg(picture: Picture) -> str:
    """An element for a page: its colours are the page's variables `--c-<hex>`, where that has them."""
    file = io.StringIO()
    picture.figure.patch.set_alpha(0)
    for axes in picture.figure.axes:
        axes.patch.set_alpha(0)
    with rc_context(TEXT):
        FigureCanvasSVG(picture.figure).print_svg(file, metadata=SILENT)
    drawing = file.getvalue()
    drawing = COLOUR.sub(r"\1: var(--c-\2, #\2)", drawing[drawing.index("<svg") :])
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{picture.text}" ', 1)
