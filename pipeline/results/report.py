"""report.md: the verdict, the table, what was timed and how; short enough for a pull request."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline.evidence.summary import CaseSummary, Comparison, Summary
from pipeline.results.provenance import Provenance
from pipeline.results.record import again
from pipeline.results.table import Row, Table, by_workload, tables, workload_digest
from pipeline.schema import Config

ALIGNMENT = ("--:", "---", "---", "--:", "--:", "---", "---", "--:")


def report(summary: Summary, config: Config, provenance: Provenance, folder: Path, plots: list[Path]) -> str:
    """GitHub's Markdown. `folder` is the run's; plots are linked relative to it."""
    parts = [f"# {config.name}", note(summary, config), "### What was timed", _timed(summary, config, provenance)]
    parts += ["### Reproduce", _reproduce(provenance, folder)]
    if plots:
        parts += ["### Plots", *(f"![{plot.stem}]({plot.relative_to(folder).as_posix()})" for plot in plots)]
    return "\n\n".join(parts) + "\n"


def note(summary: Summary, config: Config) -> str:
    """The verdict and the tables alone."""
    parts = [f"**{summary.headline}**", *_failures(summary)]
    parts += [part for table in tables(summary, config) for part in (f"### {table.title}", _markdown(table))]
    return "\n\n".join([*parts, _legend(summary)])


def _failures(summary: Summary) -> list[str]:
    failed = [
        f"- `{arm.arm}` at `{case.case}`: {arm.check.detail}"
        for case in summary.cases
        for arm in case.arms.values()
        if not arm.check.passed
    ]
    return ["Failed checks, no numbers given:\n\n" + "\n".join(failed)] if failed else []


def _markdown(table: Table) -> str:
    header = (
        "context", "arm", "verdict", table.value_header, table.ratio_header, "skipped", "check", "tok/s",
    )  # fmt: skip
    lines = [header, ALIGNMENT, *(_cells(row) for row in table.rows)]
    width = len(header) if table.metric != "step" else len(header) - 1
    return "\n".join("| " + " | ".join(line[:width]) + " |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    verdict = f"**{row.verdict}**" if row.verdict in ("FASTER", "SLOWER", "FAILED") else row.verdict
    return row.context, f"`{row.arm}`", verdict, row.value, row.ratio, row.fast_path, row.check, row.throughput


def _legend(summary: Summary) -> str:
    control = f" `{summary.control}` is `{summary.baseline}` again, ± its noise floor." if summary.control else ""
    return (
        f"Ratio: time over that of `{summary.baseline}` on the same steps, below 1 is faster.{control} "
        "Skipped: steps that skipped scoring, of those with rows to score, and their share of the rows. "
        "Check: relative error of the worst step against the reference."
    )


def _timed(summary: Summary, config: Config, provenance: Provenance) -> str:
    engine, measure = config.engine, config.measure
    packages = ", ".join(f"{name} {version}" for name, version in provenance.packages.items() if version)
    lines = {
        "scope": f"`{summary.scope}`, layers `{summary.layers}`, tp {summary.tp}, model `{config.model.name}`",
        "numbers": f"{engine.dtype}, KV `{engine.kv_layout}`, index `{engine.index_layout}`, on {engine.device}",
        **{f"workload `{name}`": _workload(cases) for name, cases in by_workload(summary).items()},
        "noise floor": _noise(summary),
        "margin": f"±{100 * measure.margin:g} % counts as the same",
        "interval": f"{100 * measure.confidence:g} %: {summary.interval_method}",
        "percentiles": f"{summary.percentile_method}; least samples: "
        + ", ".join(f"{name} {count}" for name, count in summary.minimum_samples.items()),
        "machine": _machine(provenance),
        "software": f"Python {provenance.python}, {packages}; {_commit(provenance)}",
    }
    return "\n".join(f"- {name}: {text}" for name, text in lines.items())


def _workload(cases: Sequence[CaseSummary]) -> str:
    requests, steps = _range(case.requests for case in cases), _range(case.steps for case in cases)
    rounds, warmup = _range(case.rounds for case in cases), _range(case.warmup_rounds for case in cases)
    return (
        f"requests {requests}, steps {steps}, rounds {rounds} after {warmup} of warm-up, arms in turns of balanced "
        f"random order; digest `{workload_digest(cases)}`"
    )


def _range(counts: Iterable[int]) -> str:
    found = sorted(set(counts))
    return f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _noise(summary: Summary) -> str:
    """The range over all cases, of the metric each is judged by."""
    if summary.control is None:
        return "unknown, no control arm; only differences beyond the margin are called real"
    found = [comparison.noise for comparison in _controls(summary) if comparison.noise is not None]
    if not found:
        return "unknown, too few rounds"
    low, high = f"{100 * min(found):.1f}", f"{100 * max(found):.1f}"
    return f"{low} %" if low == high else f"{low} to {high} %, by case"


def _controls(summary: Summary) -> list[Comparison]:
    arms = [(case.primary, case.arms[summary.control]) for case in summary.cases if summary.control in case.arms]
    return [arm.comparisons[primary] for primary, arm in arms if primary in arm.comparisons]


def _machine(provenance: Provenance) -> str:
    gpu = provenance.gpu
    name = f"{gpu.name}, driver {gpu.driver or 'unknown'}; " if gpu else ""
    return f"{name}{provenance.cpu}, {provenance.cores} cores; {provenance.platform}"


def _commit(provenance: Provenance) -> str:
    if provenance.git_commit is None:
        return "not a git checkout"
    return f"commit {provenance.git_commit[:12]}{' with uncommitted changes' if provenance.git_dirty else ''}"


def _reproduce(provenance: Provenance, folder: Path) -> str:
    launched = Path(provenance.launch_directory)
    shown = folder.relative_to(launched) if folder.is_relative_to(launched) else folder
    return (
        f"```sh\n{provenance.reproduce}\n```\n\n"
        f"Or with nothing left to defaults: `{again(shown)}`. Run at {provenance.utc}; raw samples, figures and "
        f"configuration: `{shown.as_posix()}`"
    )
