"""Every picture of a report, as figures that can be written as PNG or as SVG."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg

from pipeline.evidence.summary import Summary
from pipeline.results.folder.files import replacing
from pipeline.results.plots.ladder import ladders
from pipeline.results.plots.means import means
from pipeline.results.plots.picture import Picture
from pipeline.results.plots.stages import limits, shares
from pipeline.schema import Config


def pictures(summary: Summary, config: Config, device: str) -> list[Picture]:
    """In the order of a report; only those that the summary has something for. `device`: what it is called."""
    return [
        *means(summary, config, device),
        *ladders(summary, config, device),
        *shares(summary, config, device),
        *limits(summary, config, device),
    ]


def write_pngs(found: Sequence[Picture], folder: Path) -> list[Path]:
    """`plots/<name>.png`"""
    paths = []
    for picture in found:
        paths.append(folder / "plots" / f"{picture.name}.png")
        with replacing(paths[-1]) as draft:
            FigureCanvasAgg(picture.figure).print_png(draft)
    return paths
