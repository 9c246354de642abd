"""What a person sees: a bar while it measures, the table at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from pipeline.evidence.summary import Summary
from pipeline.results.table import Row, Table, tables
from pipeline.schema import Config

STYLES = {"FASTER": "bold green", "SLOWER": "bold red", "FAILED": "bold white on red", "UNDECIDED": "yellow"}
NARROW = 80  # columns below which an interval goes under its ratio
NOISY = 0.1  # of the noise floor
WIDE = 110  # columns from which the throughput and the error fit as well

OnProgress = Callable[[str, int, int], None]  # phase, done, total


@contextmanager
def progress(console: Console | None = None) -> Iterator[OnProgress]:
    """One bar a phase. Nothing is drawn between calls: a thread that refreshes would run inside timed windows."""
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console or Console(stderr=True),
        auto_refresh=False,
    )
    tasks = {}

    def advance(phase: str, done: int, total: int) -> None:
        if phase not in tasks:
            tasks[phase] = bars.add_task(phase, total=total)
        bars.update(tasks[phase], completed=done, total=total, refresh=True)

    with bars:
        yield advance


def show(summary: Summary, config: Config, folder: Path, console: Console | None = None) -> None:
    """The verdict, one table for each workload and metric, and where everything lies."""
    console = console or Console()
    for table in tables(summary, config):
        console.print(_grid(table, console.width))
    for case in summary.cases:
        for arm in case.arms.values():
            if not arm.check.passed:
                console.print(Text(f"{arm.arm} FAILED at {case.case}: {arm.check.detail}", "red"))
    console.print(Text(_timed(summary, config), "dim"))
    console.print(Text(_legend(summary), "dim"))
    console.print(Text(f"\n{lines(summary.headline)}", "bold"))
    console.print(Text(f"\nreport   {folder / 'report.md'}\nsamples  {folder / 'samples.csv.gz'}"), soft_wrap=True)


def _grid(table: Table, width: int) -> Grid:
    wide = width >= WIDE
    grid = Grid(title=table.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    grid.add_column("context", justify="right", no_wrap=True)
    grid.add_column("arm", overflow="fold")
    grid.add_column("verdict", no_wrap=True)
    grid.add_column(table.value_header, justify="right", no_wrap=True)
    grid.add_column(table.ratio_header, no_wrap=width >= NARROW, overflow="fold")
    grid.add_column("skipped", overflow="fold", min_width=7)
    grid.add_column("check")
    if wide:
        grid.add_column("tok/s", justify="right", no_wrap=True)
    for number, row in enumerate(table.rows):
        last = number + 1 == len(table.rows) or table.rows[number + 1].context != ""
        grid.add_row(*_cells(row, wide), end_section=last)
    return grid


def _cells(row: Row, wide: bool) -> list[Text]:
    check = row.check if wide else row.check.split()[0]
    cells = [row.context, row.arm, row.verdict, row.value, row.ratio, row.fast_path, check]
    texts = [Text(cell) for cell in cells + [row.throughput] * wide]
    texts[2].stylize(STYLES.get(row.verdict, "dim"))
    return texts


def lines(headline: str) -> str:
    """The clauses of a headline, each on its own line."""
    return headline.removesuffix(".").replace("; ", "\n")


def _timed(summary: Summary, config: Config) -> str:
    engine, rounds = config.engine, [case.rounds for case in summary.cases]
    asked, seconds = config.measure.rounds, config.measure.seconds
    fewer = f" (measure.seconds={seconds} leaves no time for {asked})" if seconds and min(rounds) < asked else ""
    return (
        f"Timed: {summary.scope}, layers {summary.layers} of {config.model.name}, tp {summary.tp}, {engine.dtype}, "
        f"{engine.kv_layout}, on {engine.device}, graph {engine.graph}; {min(rounds)} to {max(rounds)} rounds a case"
        f"{fewer}."
    )


def _legend(summary: Summary) -> str:
    control = f"{summary.control}: {summary.baseline} again, ± is the noise floor. " if summary.control else ""
    return (
        f"{control}Times: mean. Ratio: geometric mean over rounds of the time over that of {summary.baseline}. "
        f"Skipped: steps that skipped scoring, share of rows.{_disturbed(summary)}"
    )


def _disturbed(summary: Summary) -> str:
    found = [arm.comparisons for case in summary.cases for name, arm in case.arms.items() if name == summary.control]
    noise = max((one.noise or 0.0 for comparisons in found for one in comparisons.values()), default=0.0)
    if noise < NOISY:
        return ""
    return (
        f"\nThe noise floor reaches {noise:.0%}: something else uses this machine. Stop it, or give every case more "
        "rounds with measure.seconds=60 measure.rounds=100."
    )
