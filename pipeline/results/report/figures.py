"""The figures in Markdown: a short table to be read, and a long one with everything."""

from collections.abc import Sequence

from pipeline.evidence.summary import Summary
from pipeline.results.arms import NOISE
from pipeline.results.report.section import Section, literal, table
from pipeline.results.table import ABSENT, Row, Table, by_workload, confidence, tables
from pipeline.schema import Config

ALIGNMENT = ("--:", "---", "---", "--:", "--:", "---", "---", "--:")
BOLD = ("FASTER", "SLOWER", "FAILED", "RAISED")
MOST_COLUMNS = 5  # of arms; of more of them each gets a line


def short(summary: Summary, config: Config) -> list[Section]:
    """A table for each workload, mode and metric: contexts down, arms across, or the other way where they are many."""
    return [Section(one.title, _short(one, summary)) for one in tables(summary, config)]


def long(summary: Summary, config: Config) -> Section:
    parts = [part for one in tables(summary, config) for part in (f"#### {one.title}", _long(one, summary))]
    return Section("Every figure", "\n\n".join([*parts, _columns(), *_outliers(summary)]), folded=True)


def legend(summary: Summary, config: Config) -> str:
    control = f" Noise: what `{summary.control}`, `{summary.baseline}` again, differs by." if summary.control else ""
    means = ""
    if summary.overall:
        means = " All: geometric mean over the contexts."
    compared = [one for case in summary.cases for arm in case.arms.values() for one in arm.comparisons.values()]
    alone = confidence([*compared, *(one.comparison for one in summary.overall)])
    return (
        f"Ratio: time over that of `{summary.baseline}` on the same steps, below 1 is faster. Jointly: the intervals "
        f"of all contexts, metrics and arms hold at once with {100 * config.measure.confidence:g} %, for which each by "
        f"itself holds with {alone}. Within ±{100 * config.measure.margin:g} % is the SAME, but FASTER and SLOWER go "
        f"first: a gain of 1 % beyond the noise is FASTER.{means}{control}"
    )


def _short(one: Table, summary: Summary) -> str:
    groups = _groups(one.rows)
    arms = [arm for arm in dict.fromkeys(row.arm for row in one.rows) if arm not in (summary.baseline, summary.control)]
    noise = ["noise"] if summary.control else []
    columns = [f"`{summary.baseline}` {one.value_header}", *(f"`{arm}` {one.ratio_header}" for arm in arms), *noise]
    names = [summary.baseline, *arms, *([summary.control] if summary.control else [])]
    matrix = [["context", *columns]]
    for group in groups:
        found = {row.arm: row for row in group}
        cells = [_cell(found[name], name, summary) if name in found else ABSENT for name in names]
        matrix.append([group[0].context, *cells])
    if len(arms) > MOST_COLUMNS:
        matrix = [list(line) for line in zip(*matrix, strict=True)]
    return table(matrix[0], ["--:", *["---"] * (len(matrix[0]) - 1)], matrix[1:])


def _cell(row: Row, name: str, summary: Summary) -> str:
    if name == summary.baseline:
        return row.value
    if name == summary.control:
        return row.verdict
    needed = f"<br>{_needed(row)}" if row.needed else ""
    ratio = f" {row.ratio}" if row.ratio != ABSENT else ""
    return f"{_verdict(row)}{ratio}{needed}"


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of one context each."""
    found: list[list[Row]] = []
    for row in rows:
        if row.context:
            found.append([])
        found[-1].append(row)
    return found


def _long(one: Table, summary: Summary) -> str:
    header = (
        "context", "arm", "verdict", one.value_header, one.ratio_header, "skipped", "check (rel. error)", "tok/s",
    )  # fmt: skip
    width = len(header) - (one.metric == "step")
    return table(header[:width], ALIGNMENT[:width], [_cells(row, _name(row, summary))[:width] for row in one.rows])


def _name(row: Row, summary: Summary) -> str:
    return f"{NOISE} (`{summary.baseline}` again)" if row.arm == summary.control else f"`{row.arm}`"


def _needed(row: Row) -> str:
    return f"{row.needed} would decide" if row.needed.endswith("rounds") else row.needed


def _cells(row: Row, name: str) -> tuple[str, ...]:
    needed = f", {row.needed}" if row.needed else ""
    return (
        row.context, name, f"{_verdict(row)}{needed}", row.value, row.ratio, row.fast_path, row.check,
        row.throughput,
    )  # fmt: skip


def _verdict(row: Row) -> str:
    return f"**{row.verdict}**" if row.verdict in BOLD else row.verdict


def _columns() -> str:
    return (
        "Skipped and tok/s: over the steps that the metric of the table is made of. Skipped: those that skipped "
        "scoring, of those with rows to score, and their share of the rows. Check: relative error of the worst step "
        "of all against the float32 reference. Behind UNDECIDED: the rounds that would decide, or why none would."
    )


def _outliers(summary: Summary) -> list[str]:
    lines = []
    for ladder, cases in by_workload(summary).items():
        for case in cases:
            found = [f"{arm} {count}" for arm, count in case.outliers.items() if count]
            if found:
                lines.append(f"{ladder} {case.label}: {', '.join(found)} of {case.rounds}")
    void = [f"`{case.case}`: {literal(case.void)}" for case in summary.cases if case.void]
    parts = [f"Rounds far from an arm's others, which count all the same: {'; '.join(lines)}."] if lines else []
    return parts + ([f"Cases with too few undisturbed rounds, in which all count: {'; '.join(void)}."] if void else [])
