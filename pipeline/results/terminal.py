"""What a person sees: a bar while it measures, the table at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as Grid
from rich.text import Text

from pipeline.evidence.summary import Summary
from pipeline.results import answers, notes, verdict
from pipeline.results.arms import NOISE, arms
from pipeline.results.table import Row, Table, tables
from pipeline.schema import Config

STYLES = {"FASTER": "bold green", "SLOWER": "bold red", "FAILED": "bold white on red", "UNDECIDED": "yellow"}
NARROW = 80  # columns below which an interval goes under its ratio
WIDE = 110  # columns from which the throughput and the error fit as well
KINDS = {"good": "green", "bad": "red", "open": "yellow"}
LONG_NAME = 8  # columns that an arm gets before its ratio is squeezed
FILES = {"report": "report.md", "page": "report.html", "samples": "samples.csv.gz"}

OnProgress = Callable[[str, int, int], None]  # phase, done, total


@contextmanager
def progress(console: Console | None = None) -> Iterator[OnProgress]:
    """One bar a phase. Nothing is drawn between calls: a thread that refreshes would run inside timed windows."""
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("so far, at most"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console or Console(stderr=True),
        auto_refresh=False,
    )
    tasks = {}

    def advance(phase: str, done: int, total: int) -> None:
        if phase not in tasks:
            tasks[phase] = bars.add_task(phase, total=total)
            settle()
        said = phase if done < total else f"{phase}: timed; checked again, taken apart"
        bars.update(tasks[phase], description=said, completed=done, total=total, refresh=True)

    def settle() -> None:
        for phase, task in tasks.items():
            bars.update(task, description=phase)

    with bars:
        yield advance
        settle()


def show(summary: Summary, config: Config, folder: Path, console: Console | None = None) -> None:
    """The verdict, one table for each workload and metric, and where everything lies."""
    console = console or Console()
    for table in tables(summary, config):
        console.print(_grid(table, summary, console.width))
    for arm, said in arms(summary, config).items():
        console.print(Text(f"{arm}: {said}", "dim"))
    for line in (_timed(summary, config), _legend(summary), *notes.outlier_lines(summary)):
        console.print(Text(line, "dim"))
    for line in (*notes.stage_lines(summary), *notes.compile_lines(summary.findings)):
        console.print(Text(line), soft_wrap=False)
    console.print(Text(""))
    for line in (*verdict.outcomes(summary.findings), *notes.demand_lines(summary.findings)):
        console.print(_coloured(line))
    for line in verdict.doubts(summary):
        console.print(Text(f"warning: {line}", "yellow"))
    for line in verdict.found(summary):
        console.print(_coloured(line))
    for line in answers.worth(summary.findings):
        console.print(Text(line))
    files = "".join(f"\n{name:8} {folder / file}" for name, file in FILES.items())
    console.print(Text(files), soft_wrap=True)


def _coloured(line: str) -> Text:
    text = Text(line, "bold")
    for word in verdict.WORD.finditer(line):
        text.stylize(KINDS[verdict.KINDS[word[1]]], *word.span())
    return text


def _grid(table: Table, summary: Summary, width: int) -> Grid:
    wide = width >= WIDE
    grid = Grid(title=table.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    mix = any(row.context.startswith("mix") for row in table.rows)
    grid.add_column("context", justify="right", no_wrap=not mix, min_width=9 if mix else None)
    names = [_name(row, summary) for row in table.rows]
    grid.add_column("arm", overflow="fold", min_width=min(max(map(len, names)), LONG_NAME))
    grid.add_column("verdict", no_wrap=True)
    grid.add_column(table.value_header, justify="right", no_wrap=True)
    grid.add_column(table.ratio_header, no_wrap=width >= NARROW, overflow="fold")
    grid.add_column("skipped", overflow="fold", min_width=7)
    grid.add_column("check (rel. error)" if wide else "check", overflow="fold", min_width=6)
    if wide:
        grid.add_column("tok/s", justify="right", no_wrap=True)
    for number, row in enumerate(table.rows):
        last = number + 1 == len(table.rows) or table.rows[number + 1].context != ""
        grid.add_row(*_cells(row, names[number], wide), end_section=last)
    return grid


def _name(row: Row, summary: Summary) -> str:
    return NOISE if row.arm == summary.control else row.arm


def _cells(row: Row, name: str, wide: bool) -> list[Text]:
    check = row.check if wide else row.check.split()[0]
    needed = f"{', ' if wide else chr(10)}{row.needed}" if row.needed else ""
    path = row.fast_path if wide else row.fast_path.split()[0]
    cells = [row.context, name, row.verdict + needed, row.value, row.ratio, path, check]
    texts = [Text(cell) for cell in cells + [row.throughput] * wide]
    texts[2].stylize(STYLES.get(row.verdict, "dim"))
    return texts


def _timed(summary: Summary, config: Config) -> str:
    engine, rounds = config.engine, [case.rounds for case in summary.cases]
    asked, seconds, stop = config.measure.rounds, config.measure.seconds, config.measure.stop
    ended = [f"measure.seconds={seconds}"] * (seconds is not None) + ["all decided"] * (stop == "decided")
    fewer = f" (of {asked}; {' or '.join(ended)} ends a case)" if ended and min(rounds) < asked else ""
    return (
        f"Timed: {summary.scope}, layers {summary.layers} of {config.model.name}, tp {summary.tp}, {engine.dtype}, "
        f"{engine.kv_layout}, on {engine.device}, graph {engine.graph}; {min(rounds)} to {max(rounds)} rounds a case"
        f"{fewer}."
    )


def _legend(summary: Summary) -> str:
    return (
        f"Times: mean. Ratio: geometric mean over rounds of the time over that of {summary.baseline}. "
        "Skipped: steps that skipped scoring, of those that the metric is made of. Below UNDECIDED: the rounds that "
        "would decide, or why none would."
    )
