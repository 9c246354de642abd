"""Two finished runs, arm by arm, beneath the list of all in which they differ beyond what was meant to.

`python -m pipeline.results.compare FOLDER FOLDER [--changed PART ...]`: a part is a name of the list, such as
code.commit or arms.mine, or the beginning of one, such as software.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from yaml import YAMLError

from pipeline.evidence.summary import ArmSummary, CaseSummary, Summary
from pipeline.results.folder.fingerprint import Difference, Parts, differences, digest, fingerprint, within
from pipeline.results.folder.record import read_provenance, read_summary
from pipeline.results.folder.status import ENDED, read_status
from pipeline.results.table import mean_key, significant

STAGE = ".attend._target_"  # every arm has one
TIMELESS = (
    "claim", "gate", "traffic", "projection", "self_test", "measure.breakdown", "measure.breakdown_seconds",
    "measure.confidence", "measure.margin", "measure.resamples",
)  # fmt: skip
"""Parts that are asked of times, and change none."""


class CompareError(ValueError):
    """Why there is nothing to compare, on one line."""


@dataclass(frozen=True)
class Finished:
    id: str
    parts: Parts
    summary: Summary


@dataclass(frozen=True)
class Pair:
    """An arm in both runs. `ratio`: the second run's time over the first's; its bounds take both intervals whole."""

    case: str
    arm: str
    metric: str
    values: tuple[float, float]
    ratio: float
    low: float | None
    high: float | None
    to_baseline: tuple[str, str]  # its ratio to the baseline within each run


def read(folder: Path) -> Finished:
    """CompareError where it is no folder of a run that came to its end."""
    if not folder.is_dir():
        raise CompareError(f"{folder}: no such folder; give that of a finished run, outputs/STUDY/RUN")
    try:
        status = read_status(folder)
        if status not in ENDED:
            raise CompareError(f"{folder}: the run is {status}; only a run that came to its end can be compared")
        config = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"), resolve=True)
        if not (isinstance(config, dict) and isinstance(config.get("arms"), dict) and config["arms"]):
            raise ValueError("config.yaml names no arms")
        summary = read_summary(folder)
        for case in summary.cases:
            _refuse_reversed(case)
        return Finished(folder.resolve().name, fingerprint(config, read_provenance(folder)), summary)
    except CompareError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, YAMLError, OmegaConfBaseException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CompareError(f"{folder}: not the folder of a run that was summarised: {reason}") from error


def _refuse_reversed(case: CaseSummary) -> None:
    for arm in case.arms.values():
        for metric, (low, high) in arm.intervals.items():
            if not low <= high:
                raise ValueError(
                    f"summary.json: case {case.case}, arm {arm.arm}: the interval of {metric} ends at {high:g}, below "
                    f"its start {low:g}"
                )


def refuse_unknown(declared: Sequence[str], one: Parts, other: Parts) -> None:
    """CompareError for a declared part that neither run has."""
    for part in declared:
        if not any(within(name, [part]) for name in (*one, *other)):
            known = dict.fromkeys([*one, *other, *(name.partition(".")[0] for name in one)])
            near = get_close_matches(part, known, 3) or ["machine", "software", "code", "engine", "arms"]
            raise CompareError(f"--changed {part}: neither run has such a part; near: {', '.join(near)}")


def pairs(one: Summary, other: Summary) -> tuple[list[Pair], list[str]]:
    """Arms of the same name in cases that asked for the same, and what else there is."""
    first, second = ({case.case: case for case in summary.cases} for summary in (one, other))
    found, apart = [], []
    for name in dict.fromkeys([*first, *second]):
        if name not in first or name not in second:
            apart.append(f"{name}: only in {'A' if name in first else 'B'}")
        elif reason := _unlike(first[name], second[name]):
            apart.append(f"{name}: {reason}")
        else:
            arms = [arm for arm in first[name].arms if arm in second[name].arms]
            apart += [f"{name}: arm {arm} only in A" for arm in first[name].arms if arm not in arms]
            apart += [f"{name}: arm {arm} only in B" for arm in second[name].arms if arm not in arms]
            for arm in arms:
                pair = _pair(first[name], first[name].arms[arm], second[name].arms[arm])
                found += [pair] if pair else []
                apart += [] if pair else [f"{name}: arm {arm} has no figures in one of them"]
    return found, apart


def show(one: Finished, other: Finished, declared: Sequence[str], console: Console) -> None:
    """The list of differences first, whatever the ratios are."""
    for line in _head(one, other, declared):
        console.print(Text(line))
    found, apart = pairs(one.summary, other.summary)
    if found:
        console.print(_grid(found))
        console.print(Text("B / A is not paired: its interval holds those of both runs, but no drift between them."))
    for line in apart:
        console.print(Text(f"not compared  {line}"))


def _head(one: Finished, other: Finished, declared: Sequence[str]) -> Iterator[str]:
    for label, run in (("A", one), ("B", other)):
        yield f"{label}  {run.id}, fingerprint without the declared change {digest(run.parts, declared)}"
    yield f"declared change: {', '.join(declared) or 'none'}"
    every = differences(one.parts, other.parts, declared)
    alone = _alone(one.parts, other.parts)
    found = [each for each in every if not within(each.part, (*TIMELESS, *alone))]
    found += [Difference(arm, *side) for arm, side in alone.items() if not within(arm, declared)]
    if not every:
        yield "nothing else differs in machine, software, code and configuration"
        return
    timeless = [part for part in TIMELESS if any(within(each.part, [part]) for each in every)]
    if timeless:
        yield f"differ, and change no time: {', '.join(timeless)}"
    if not found:
        return
    yield f"beyond it {len(found)} part{' differs' if len(found) == 1 else 's differ'}, and a ratio may come from any:"
    width = max(len(each.part) for each in found)
    for each in found:
        yield f"  {each.part:{width}}  {each.one} -> {each.other}"
    if any(within(each.part, ["machine"]) for each in found):
        yield "the machines differ: B / A compares them, not the arms; compare the ratios to the baseline"


def _alone(one: Parts, other: Parts) -> dict[str, tuple[str, str]]:
    """Arms that one run has alone: a line each, not one for each of their knobs."""
    first, second = (
        {name.removesuffix(STAGE) for name in run if name.startswith("arms.") and name.endswith(STAGE)}
        for run in (one, other)
    )
    return {arm: ("an arm", "-") if arm in first else ("-", "an arm") for arm in sorted(first ^ second)}


def _unlike(one: CaseSummary, other: CaseSummary) -> str | None:
    for name in ("digest", "scope", "primary"):
        first, second = getattr(one, name), getattr(other, name)
        if first != second:
            return f"{'the requests' if name == 'digest' else name} differ: {first} and {second}"
    return None


def _pair(case: CaseSummary, one: ArmSummary, other: ArmSummary) -> Pair | None:
    metric = case.primary
    key = mean_key(metric)
    if key not in one.metrics or key not in other.metrics or not one.metrics[key]:
        return None
    low = high = None
    if metric in one.intervals and metric in other.intervals:
        (first_low, first_high), (second_low, second_high) = one.intervals[metric], other.intervals[metric]
        low, high = (second_low / first_high, second_high / first_low) if first_low > 0 else (None, None)
    values = one.metrics[key], other.metrics[key]
    within_runs = _to_baseline(one, metric), _to_baseline(other, metric)
    return Pair(case.case, one.arm, metric, values, values[1] / values[0], low, high, within_runs)


def _to_baseline(arm: ArmSummary, metric: str) -> str:
    found = arm.comparisons.get(metric)
    return f"{found.ratio:.3f} {found.verdict}" if found else "-"


def _grid(found: Sequence[Pair]) -> Table:
    grid = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for header in ("case", "arm", "A", "B", "B / A", "to baseline, A", "to baseline, B"):
        grid.add_column(
            header, justify="right" if header in ("A", "B") else "left", overflow="fold", no_wrap=header == "B / A"
        )
    for pair in found:
        bounds = "" if pair.low is None else f" [{pair.low:.3f}, {pair.high:.3f}]"
        unit = mean_key(pair.metric).rpartition("_")[2]
        values = [f"{significant(value)} {unit}" for value in pair.values]
        grid.add_row(pair.case, pair.arm, *values, f"{pair.ratio:.3f}{bounds}", *pair.to_baseline)
    return grid


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        raise CompareError(f"{message}; usage: python -m pipeline.results.compare FOLDER FOLDER [--changed PART ...]")


def main(arguments: Sequence[str], console: Console | None = None) -> int:
    parser = _Parser(prog="python -m pipeline.results.compare", description=__doc__)
    parser.add_argument("folders", nargs=2, type=Path, metavar="FOLDER")
    parser.add_argument("--changed", nargs="+", action="extend", default=[], metavar="PART")
    try:
        asked = parser.parse_args(arguments)
        one, other = map(read, asked.folders)
        if one.id == other.id:
            raise CompareError(f"{asked.folders[1]}: both folders are run {one.id}; give two runs")
        refuse_unknown(asked.changed, one.parts, other.parts)
    except CompareError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    show(one, other, asked.changed, console or Console())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
