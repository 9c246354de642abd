"""A step taken apart: each stage of a layer, and the parts of one made of several, to be timed alone.

One layer of each kind stands for all of its kind. Arms that do the same with inputs of the same shapes have a part in
common, which is timed once; arms that do something else with such inputs do it with those of the first.

Where an arm replays its steps as graphs a part is a graph too: PER_GRAPH times the calls of a layer, each time behind a
read of more than the L2 cache holds, for in a step the weights of all stages push out what a stage will read. The part
without a place takes those reads alone, to be subtracted.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from pipeline.engine.arms.arm import StackArm
from pipeline.engine.arms.flush import reading
from pipeline.engine.arms.graph import GraphArm
from pipeline.engine.arms.journal import Journal, Note
from pipeline.engine.layer import Layer
from pipeline.schema import Kind

PER_GRAPH = 20
PROJECTION = "project"


@dataclass(frozen=True)
class Place:
    """Where a part stands: a stage of layers of a kind, and the stage that calls it, if not the layer does."""

    kind: Kind
    stage: str
    within: str | None


@dataclass(frozen=True)
class Work:
    """What a part does in one step."""

    implementation: Any  # equal ones do the same with equal inputs
    calls: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]  # of one layer
    layers: float  # of the kind, fewer where the layers share what is made
    gathered: bool  # the step attends from a workspace
    fp8_weights: bool

    def __call__(self) -> None:
        for stage, arguments in self.calls:
            stage(*arguments)

    @property
    def shape(self) -> list[Any]:
        return [_shape(arguments) for _, arguments in self.calls]


@dataclass
class Part:
    """Does `work[step]`; nothing in a step that has none. Steps count from 0 among those that were taken apart."""

    repeats = 1  # whatever a graph holds: `times` tells

    name: str  # of the first arm that has it
    place: Place | None
    work: dict[int, Work]
    arms: list[str]  # all that have it
    graphed: frozenset[int]  # steps
    flush: Callable[[], Any] | None
    _graphs: dict[int, torch.cuda.CUDAGraph] = field(default_factory=dict)

    def times(self, step: int) -> int:
        """How often a step does the work."""
        return PER_GRAPH if step in self.graphed else 1

    def prepare(self, step: int) -> None:
        """The graph, where the step has one; what has to be compiled is compiled before."""
        idle = self.place is not None and step not in self.work
        if step not in self.graphed or step in self._graphs or idle:
            return
        self._once(step)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(PER_GRAPH):
                self._once(step)
        self._graphs[step] = graph

    def replays(self, step: int) -> bool:
        return step in self._graphs

    def step(self, step: int) -> None:
        if step in self._graphs:
            self._graphs[step].replay()
        elif step in self.work:
            self.work[step]()

    def _once(self, step: int) -> None:
        if self.flush is not None:
            self.flush()
        if step in self.work:
            self.work[step]()


def parts(
    arms: Sequence[StackArm],
    steps: Sequence[int],
    running: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> list[Part]:
    """Of all arms, in the order in which they run; at last the one without a place, if any is a graph.

    An arm runs within `running(its name)`.
    """
    first = arms[0]
    decode = frozenset(number for number, step in enumerate(steps) if first.plan.inputs[step].decodes)
    graphed = decode if isinstance(first, GraphArm) else frozenset()
    flush = reading(first.blueprint.device) if graphed else None
    found: list[Part] = []
    for number, arm in enumerate(arms):
        twin = next((other.name for other in arms[:number] if other.stages == arm.stages), None)
        if twin is not None:
            for part in found:
                part.arms += [arm.name] * (twin in part.arms)
            continue
        with running(arm.name):
            works = _works(arm, steps)
        for place, work in works.items():
            alike = [part for part in found if part.place == place and _alike(part.work, work)]
            same = [part for part in alike if _done(part.work) == _done(work)]
            if same:
                same[0].arms.append(arm.name)
                continue
            if alike:
                work = {number: _on_inputs_of(alike[0].work[number], mine) for number, mine in work.items()}
            found.append(Part(arm.name, place, work, [arm.name], graphed, flush))
    return [*found, Part("", None, {}, [], graphed, flush)] if graphed else found


def _works(arm: StackArm, steps: Sequence[int]) -> dict[Place, dict[int, Work]]:
    found: dict[Place, dict[int, Work]] = {}
    for number, step in enumerate(steps):
        for place, work in _run(arm, step).items():
            found.setdefault(place, {})[number] = work
    return found


def _run(arm: StackArm, step: int) -> dict[Place, Work]:
    """One run of the step, with every call noted, and what the first layer of each kind was called with."""
    arm.prepare(step)
    stages, x, inputs = arm.surroundings(step)
    kinds = arm.blueprint.kinds
    journals = [Journal(keeps=number == kinds.index(kind)) for number, kind in enumerate(kinds)]
    layers = arm.blueprint.layers(stages)
    noted = [replace(layer, stages=journal.noted(stages)) for layer, journal in zip(layers, journals, strict=True)]
    outputs = arm.forward(noted, x, inputs)
    made = Counter(
        Place(kind, note.name, note.within)
        for kind, journal in zip(kinds, journals, strict=True)
        for note in journal.notes
    )
    found = {}
    for kind in dict.fromkeys(kinds):
        number = kinds.index(kind)
        path = _path(arm, journals[number])
        for place, notes in _by_place(kind, journals[number].notes).items():
            calls = tuple((note.stage, note.arguments) for note in notes)
            calls += tuple(_unstaged(place, layers[number], outputs[number].x, journals[number].notes))
            # a stage may hold a decision that the arm made before: the arm's own tells it from others
            implementation = getattr(arm.stages, place.stage, notes[0].stage)
            found[place] = Work(implementation, calls, made[place] / len(notes), *path)
    return found


def _path(arm: StackArm, journal: Journal) -> tuple[bool, bool]:
    """What the cost of a layer depends on besides lengths, in the order of `Work`."""
    gathered = any(note.name == "gather" for note in journal.notes)
    return gathered, getattr(arm.stages.project, "operands", None) == torch.float8_e4m3fn


def _by_place(kind: Kind, notes: Sequence[Note]) -> dict[Place, list[Note]]:
    found: dict[Place, list[Note]] = {}
    for note in notes:
        found.setdefault(Place(kind, note.name, note.within), []).append(note)
    return found


def _unstaged(place: Place, layer: Layer, x: Tensor, notes: Sequence[Note]) -> list[tuple[Callable, tuple[Any, ...]]]:
    """The products that belong to a layer's projections but to no stage."""
    if place.stage != PROJECTION or layer.kind == "swa":
        return []
    if place.within is None:
        return [(layer.compressed, (x,))]
    query = next(note.arguments[0] for note in notes if note.name == "score")
    return [(partial(linear, x[: len(query)]), (layer.weights.index_weights,))]


def _done(work: dict[int, Work]) -> list[Any]:
    return [(each.implementation, each.layers) for each in work.values()]


def _alike(one: dict[int, Work], other: dict[int, Work]) -> bool:
    return one.keys() == other.keys() and all(one[step].shape == other[step].shape for step in one)


def _on_inputs_of(source: Work, mine: Work) -> Work:
    pairs = zip(mine.calls, source.calls, strict=True)
    return replace(mine, calls=tuple((stage, arguments) for (stage, _), (_, arguments) in pairs))


def _shape(value: Any) -> Any:
    """What decides how long a call with this argument takes, as far as that can be told without looking at numbers."""
    match value:
        case Tensor():
            return value.dtype, tuple(value.shape)
        case tuple() | list():
            return type(value), [_shape(each) for each in value]
        case dict():
            return {key: _shape(each) for key, each in value.items()}
        case _ if is_dataclass(value):
            return type(value), [_shape(getattr(value, item.name)) for item in fields(value)]
    return value
