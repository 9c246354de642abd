"""The first and the last step of a case taken apart: how long each stage takes alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.engine.arm import StackArm
from pipeline.engine.parts import Part, Place, Work, parts
from pipeline.evidence.clock import Clock
from pipeline.evidence.cost import Cost, cost
from pipeline.evidence.geometry import Geometry, Lengths
from pipeline.evidence.measure import AtBlockEdge, Rounds, measure
from pipeline.evidence.samples import Samples, counting
from pipeline.schema import Config
from pipeline.work.schedule import Step
from pipeline.work.workload import Case

ROUNDS = 20
WARMUP_ROUNDS = 1


@dataclass(frozen=True, eq=False)
class PartTimes:
    """One stage in all layers of a kind, of every arm that does the same there. Zeros in a step without it."""

    place: Place
    arms: tuple[str, ...]
    seconds: np.ndarray  # float64 [round, step]
    calls: np.ndarray  # int [step]
    bytes: np.ndarray  # int [step]
    flops: np.ndarray  # int [step]
    fp8_flops: np.ndarray  # int [step], of these


@dataclass(frozen=True, eq=False)
class Apart:
    """`steps`: numbers of the steps in the case. Rounds are those of this measurement, not of the case."""

    case: str
    steps: tuple[int, ...]
    parts: tuple[PartTimes, ...]


def take_apart(
    config: Config,
    case: Case,
    steps: Sequence[Step],
    arms: Sequence[StackArm],
    clock: Clock,
    keep: Callable[[Samples], None],
    mode: str = "",
    at_block_edge: AtBlockEdge = lambda *_: "",
) -> Apart:
    """Every part takes turns with all others; no round begins after `measure.breakdown_seconds`, but five are made
    where the case has as many.

    `keep` gets the samples of each stage: seconds of one layer's calls.
    """
    numbers = tuple(dict.fromkeys((0, len(steps) - 1)))
    apart = [steps[number] for number in numbers]
    made = parts(arms, numbers)
    recorded = Rounds(len(numbers), len(made))
    rounds = min(ROUNDS, config.measure.rounds)
    budget, seed = config.measure.breakdown_seconds, config.seed
    measure(made, recorded, rounds, WARMUP_ROUNDS, budget, seed, clock, at_block_edge=at_block_edge)
    counts = counting(recorded.void, len(recorded))
    seconds = _of_one_layer(made, recorded.seconds[counts])
    rows = np.array([step.tokens for step in apart])
    for place in dict.fromkeys(part.place for part in made if part.place):
        mine = [number for number, part in enumerate(made) if part.place == place]
        names = tuple(made[number].name for number in mine)
        taken, order = seconds[:, :, mine], recorded.order[counts][:, :, mine]
        keep(_samples(case, place, names, taken, order, rows, recorded.started, mode))
    times = (_times(config, apart, part, seconds[:, :, number]) for number, part in enumerate(made) if part.place)
    return Apart(case.name, numbers, tuple(times))


def _of_one_layer(made: Sequence[Part], raw: np.ndarray) -> np.ndarray:
    """raw [round, step, part]: without what stands between the calls of a graph, for one of its repetitions."""
    seconds = np.zeros_like(raw)
    between = next((raw[:, :, number] for number, part in enumerate(made) if part.place is None), None)
    for number, part in enumerate(made):
        for step in part.work:
            idle = between[:, step] if step in part.graphed else 0.0
            seconds[:, step, number] = (raw[:, step, number] - idle) / part.times(step)
    return seconds


def _times(config: Config, steps: Sequence[Step], part: Part, seconds: np.ndarray) -> PartTimes:
    """seconds [round, step] of one layer."""
    layers, counts = np.zeros(len(steps)), np.zeros((len(steps), 4))
    for number, work in part.work.items():
        needed = _cost(config, steps[number], part.place, work)
        layers[number] = work.layers
        counts[number] = len(work.calls), needed.bytes, needed.flops, needed.fp8_flops
    return PartTimes(part.place, tuple(part.arms), seconds * layers, *(counts * layers[:, None]).round().astype(int).T)


def _cost(config: Config, step: Step, place: Place, work: Work) -> Cost:
    scored = None if work.scored is None else work.scored.cpu().numpy()
    geometry = Geometry(config.model, config.engine, place.kind, work.fp8_weights, work.gathered)
    return cost(place.stage, place.within, geometry, Lengths.of(step, scored))


def _samples(
    case: Case,
    place: Place,
    arms: tuple[str, ...],
    seconds: np.ndarray,
    order: np.ndarray,
    rows: np.ndarray,
    started: float,
    mode: str,
) -> Samples:
    """No case is called so: an @ is not part of a name."""
    within = f"{place.within}." if place.within else ""
    return Samples(
        case=f"{case.name}@{place.kind}.{within}{place.stage}",
        workload=case.workload,
        context=case.context,
        digest=case.digest,
        scope=place.stage,
        arms=arms,
        shortcut=(False,) * len(arms),
        seconds=seconds,
        order=order,
        rows=rows,
        skipped=np.zeros((len(rows), len(arms)), int),
        scorable=np.zeros(len(rows), int),
        started=started,
        warmup_rounds=WARMUP_ROUNDS,
        mode=mode,
    )
