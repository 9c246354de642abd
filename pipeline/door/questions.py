"""What cannot be answered by this experiment: rules for pipeline/questions.py."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hydra.utils import to_absolute_path

from pipeline.door.words import nearest, shown
from pipeline.questions import Bin, Claim, Gate, Projection, Traffic
from pipeline.schema import ConfigError, Engine
from pipeline.work.benchmark import read_benchmark
from pipeline.work.trace import read_trace

SETTINGS = (
    *("model", "layers", "server", "gpu", "tp", "kv_layout", "index_layout", "page_entries", "max_batched_tokens"),
    *("topk", "requests", "context", "tokens", "timed"),
)


def claim(asked: Claim, arms: Sequence[str]) -> Iterator[str]:
    """`arms`: names, the baseline first."""
    for number, figure in enumerate(asked.figures):
        if figure.contexts and figure.contexts[0] > figure.contexts[1]:
            yield f"claim.figures.{number}.contexts={figure.contexts}: the first must be at most the last"
        for name in figure.must or {}:
            if name not in SETTINGS:
                place = f"claim.figures.{number}.must.{name}"
                yield f"{place}={shown(figure.must[name])}: there is no such setting; {nearest(name, SETTINGS)}"
    if arms and not any(arms[0] in it.baseline and set(it.candidate) & set(arms[1:]) for it in asked.figures):
        pairs = dict.fromkeys(f"{' or '.join(it.candidate)} with {' or '.join(it.baseline)}" for it in asked.figures)
        yield (
            f"claim={asked.name}: compares {', '.join(pairs)}; the baseline here is {arms[0]}, the other arms "
            f"{', '.join(arms[1:]) or 'none'}; use +exp={' or +exp='.join(asked.experiments)}"
        )


def traffic(where: str, asked: Traffic) -> Iterator[str]:
    given = [name for name in ("prompts", "decodes") if getattr(asked, name) is not None]
    if asked.trace is not None and given:
        yield f"{where}.trace={asked.trace}: {', '.join(given)} are given as well; give the trace another name"
    elif asked.trace == "":
        yield f"{where}.trace='': names no file; give the path of a CSV file"
    elif asked.trace is not None:
        try:
            read_trace(to_absolute_path(asked.trace))
        except ConfigError as error:
            yield from (f"{where}.trace={asked.trace}: {line}" for line in error.lines)
    elif asked.prompts is None:
        yield f"{where} has no lengths; give {where}.trace=FILE or {where}.prompts"
    for name in given:
        yield from _bins(f"{where}.{name}", getattr(asked, name))


def _bins(where: str, bins: Sequence[Bin]) -> Iterator[str]:
    for number, (left, right) in enumerate(pairwise(bins), 1):
        if left.up_to >= right.up_to:
            yield f"{where}.{number}.up_to={right.up_to}: must be above that of the bin before, {left.up_to}"


def projection(asked: Projection, engine: Engine | None) -> Iterator[str]:
    if engine and engine.layers not in asked.layers:
        yield (
            f"projection.layers={asked.layers}: says nothing of engine.layers={engine.layers}, which is what is timed; "
            "time one kind of layer (engine.layers=csa, hca or swa) and give how many of it the model has"
        )
    if not asked.benchmark:
        yield "projection.benchmark='': names no file; give the path of what `vllm bench serve --save-result` writes"
        return
    try:
        read_benchmark(to_absolute_path(asked.benchmark))
    except ConfigError as error:
        yield from (f"projection.benchmark={asked.benchmark}: {line}" for line in error.lines)


def gate(asked: Gate, arms: Sequence[str]) -> Iterator[str]:
    if (asked.max_regression is not None or asked.require) and len(arms) == 1:
        yield f"gate: there is only one arm, {arms[0]}, and nothing to compare; add one with +variant@arms.NAME=OPTION"
