"""The first and the last step of a case taken apart: how long each stage takes alone.

What is kept is as the clock told it, void rounds included: in a step that is a graph a stage takes its calls
`repeats` times, each time behind a read that empties the L2 cache. `<case>@flush` has those reads without any call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.engine.arms.arm import StackArm
from pipeline.engine.arms.parts import Part, Place, Work, parts
from pipeline.evidence.breakdown.cost import Cost, cost
from pipeline.evidence.breakdown.geometry import Geometry, Lengths
from pipeline.evidence.samples import Samples, counting
from pipeline.evidence.timing.clock import Clock
from pipeline.evidence.timing.compiles import Counted
from pipeline.evidence.timing.instruments import Instruments
from pipeline.evidence.timing.measure import Design, Hooks, Rounds, measure
from pipeline.evidence.timing.modes import Trial
from pipeline.schema import Config
from pipeline.work.schedule import Step

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
    graphed: np.ndarray  # bool [step]: in a graph, behind a read that empties the L2 cache


@dataclass(frozen=True, eq=False)
class Apart:
    """`steps`: numbers of the steps in the case. Rounds are those of this measurement, not of the case."""

    case: str
    steps: tuple[int, ...]
    parts: tuple[PartTimes, ...]


def take_apart(
    trial: Trial,
    arms: Sequence[StackArm],
    clock: Clock,
    keep: Callable[[Samples], None],
    beside: Instruments | None = None,
) -> Apart:
    """Every part takes turns with all others; no round begins after `measure.breakdown_seconds`, but five are made
    where the case has as many. `keep` gets the samples of each stage, calls of one layer, also where it is cut short.
    """
    beside, case, asked = beside or Instruments(), trial.case.name, trial.config.measure
    numbers = tuple(dict.fromkeys((0, len(trial.steps) - 1)))
    steps = [trial.steps[number] for number in numbers]
    made = parts(arms, numbers, beside.compiling.seeing_launches)
    runners, recorded = [Counted(part, beside.compiling) for part in made], Rounds(len(numbers), len(made))
    design = Design(min(ROUNDS, asked.rounds), WARMUP_ROUNDS, asked.breakdown_seconds, trial.config.seed)
    hooks = Hooks(at_block_edge=beside.watch.edges_of(f"{case}@stages"))
    places = [
        {number: part for number, part in enumerate(made) if part.place == place}
        for place in dict.fromkeys(part.place for part in made)
    ]
    try:
        measure(runners, recorded, design, clock, hooks)
    except BaseException:
        for here in places if len(recorded) else ():
            keep(_samples(trial, steps, here, recorded, design.least, cut_short=True))
        raise
    for here in places:
        keep(_samples(trial, steps, here, recorded, design.least))
    seconds = _of_one_layer(made, recorded.seconds[counting(recorded.void, len(recorded), design.least)])
    numbered = ((number, part) for number, part in enumerate(made) if part.place)
    times = (_times(trial.config, steps, part, seconds[:, :, number]) for number, part in numbered)
    return Apart(case, numbers, tuple(times))


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
    graphed = np.array([number in part.graphed for number in range(len(steps))])
    sums = (counts * layers[:, None]).round().astype(int).T
    return PartTimes(part.place, tuple(part.arms), seconds * layers, *sums, graphed)


def _cost(config: Config, step: Step, place: Place, work: Work) -> Cost:
    geometry = Geometry(config.model, config.engine, place.kind, work.fp8_weights, work.gathered)
    return cost(place.stage, place.within, geometry, Lengths.of(step))


def _samples(
    trial: Trial,
    steps: Sequence[Step],
    made: Mapping[int, Part],
    recorded: Rounds,
    least: int,
    cut_short: bool = False,
) -> Samples:
    """Of the parts at one place, by number among those recorded. No case is called so: an @ is not part of a name."""
    case, mine, first = trial.case, list(made), next(iter(made.values()))
    name = _name(first.place)
    return Samples(
        case=f"{case.name}@{name}",
        workload=case.workload,
        context=case.context,
        digest=case.digest,
        scope=name.rpartition(".")[2],
        arms=tuple(part.name for part in made.values()),
        shortcut=(False,) * len(made),
        seconds=recorded.seconds[:, :, mine],
        order=recorded.order[:, :, mine],
        rows=np.array([step.tokens for step in steps]),
        skipped=np.zeros((len(steps), len(made)), int),
        scorable=np.zeros(len(steps), int),
        started=recorded.started,
        warmup_rounds=WARMUP_ROUNDS,
        partial=cut_short,
        mode=trial.mode,
        void=tuple(recorded.void) if any(recorded.void) else (),
        least_sound=least,
        late=tuple(recorded.late) if any(recorded.late) else (),
        repeats=tuple(first.times(number) for number in range(len(steps))),
    )


def _name(place: Place | None) -> str:
    if place is None:
        return "flush"
    return ".".join(filter(None, (place.kind, place.within, place.stage)))
