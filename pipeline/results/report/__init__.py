"""The report of a run: report.md, report.html and plots/ in its folder."""

from pathlib import Path

from pipeline.evidence.summary import Summary
from pipeline.results.folder.files import write_text
from pipeline.results.folder.provenance import Provenance
from pipeline.results.plots import pictures, write_pngs
from pipeline.results.report.markdown import note, report
from pipeline.results.report.page import page
from pipeline.schema import Config

__all__ = ["note", "page", "report", "write_report"]


def write_report(summary: Summary, config: Config, provenance: Provenance, folder: Path) -> None:
    drawn = pictures(summary, config, provenance.device)
    plots = write_pngs(drawn, folder)
    write_text(folder / "report.md", report(summary, config, provenance, folder, plots))
    write_text(folder / "report.html", page(summary, config, provenance, folder, drawn))
