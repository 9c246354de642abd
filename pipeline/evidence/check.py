"""Is an arm right? Each layer of each step against the float32 reference, on the same input.

Separate questions, so that rounding in one does not hide a fault in another:
    output, row     of the layer, with the arm's own selection put into the reference; as a whole, and its worst row
    scores          of the indexer, from the arm's index cache and projections on one side, the reference's on the other
    selection       by the scores that the arm had before it: how far a better entry was left out
and every selection has the right number of entries, each visible and none twice.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from kernels.contracts import Score
from pipeline.engine.arms.arm import StackArm
from pipeline.engine.batch import StepInputs, entries_of
from pipeline.engine.layer import Layer, LayerOutput
from pipeline.evidence.summary import Check


@dataclass(frozen=True)
class Errors:
    """Found in a step, or allowed."""

    output: float  # relative L2
    row: float  # of the worst row, over its own norm or that of the average row
    scores: float  # L2, over that of the heads' absolute contributions: scores themselves may cancel to nothing
    selection: float  # best entry left out above worst one taken, in standard deviations of the row's scores

    def worst(self, other: "Errors") -> "Errors":
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Errors(*(one if one > two or one != one else two for one, two in pairs))

    def beyond(self, allowed: "Errors") -> list[str]:
        """What is not within its tolerance; NaN never is."""
        return [
            f"{name} error {found:.2g} exceeds the tolerance {getattr(allowed, name):g}"
            for name, found in vars(self).items()
            if not found <= getattr(allowed, name)
        ]


NOTHING = Errors(0.0, 0.0, 0.0, 0.0)
TOLERANCES = {  # of what is multiplied; e4m3 rounds by 2.6 % (rms), and a layer has three such products in a row
    torch.float32: Errors(1e-4, 1e-3, 1e-4, 1e-4),
    torch.bfloat16: Errors(0.03, 0.1, 0.03, 0.03),
    torch.float8_e4m3fn: Errors(0.1, 0.3, 0.1, 0.1),
}


def tolerance(arm: StackArm) -> Errors:
    return TOLERANCES[getattr(arm.stages.project, "operands", arm.blueprint.dtype)]


@dataclass(frozen=True)
class _Known:
    """What the reference made of the first layer's input in a step, with a selection put in."""

    step: int
    slots: Tensor | None  # sorted: a copy, for a graph writes its outputs over
    y: Tensor
    scores: Tensor | None
    contributions: float  # L2 of sum_h |w_h| relu(q_h . k_i)


@dataclass
class Checker:
    """Checks arms of one case. The reference has the same weights in float32 and the same cache layouts."""

    reference: StackArm
    _known: list[_Known] = field(default_factory=list)

    def __call__(self, arm: StackArm) -> Check:
        errors, faults, allowed = NOTHING, [], tolerance(arm)
        for step, inputs in enumerate(arm.plan.inputs):
            arm.prepare(step)
            self.reference.prepare(step)
            for number, output in enumerate(arm.step(step)):
                if (output.y.shape, output.y.dtype) != (output.x.shape, output.x.dtype):
                    faults.append(f"the output is {output.y.dtype} {list(output.y.shape)}, not as the input")
                known = self._expected(step, number, output, inputs)
                actual, expected = output.y[: inputs.tokens], known.y[: inputs.tokens]
                found = replace(NOTHING, output=relative_error(actual, expected), row=row_error(actual, expected))
                if output.selection is not None:
                    fault = misselection(arm.layers[number], output, inputs)
                    faults += [f"step {step}, layer {number}: {fault}"] if fault else []
                    if known.scores is not None and not fault:
                        found = replace(found, **self._scored(arm, number, output, inputs, known))
                errors = errors.worst(found)
        faults += errors.beyond(allowed)
        detail = ", ".join(f"{name} error {found:.2g}" for name, found in vars(errors).items())
        return Check(not faults, errors.output, allowed.output, "; ".join(faults[:3]) or detail)

    def forget(self) -> None:
        """What the reference made of weights or inputs that were not what they should have been."""
        self._known.clear()
        self.reference.refill()

    def _expected(self, step: int, number: int, output: LayerOutput, inputs: StepInputs) -> _Known:
        """Arms that agree on the input and the selection share one computation, but never where pages change hands: a
        shared step leaves the reference's caches as another arm's last step did.
        """
        shared = output.x is self.reference.hidden[step] and not self.reference.plan.reuses_pages
        slots = None if output.selection is None else output.selection.slots.sort(1).values
        for known in self._known:
            if shared and known.step == step and _same(known.slots, slots):
                return known
        layer, caches = self.reference.layers[number], self.reference.caches[number]
        x = output.x.to(layer.weights.o_a.dtype)
        y = layer(x, inputs, caches, output.selection).y
        scores, contributions = None, 0.0
        if output.kind == "csa":
            scores = layer.index_scores(x, inputs, caches)
            absolute = _with_score(layer, _absolute(layer.stages.select.score)).index_scores(x, inputs, caches)
            contributions = float(absolute[absolute > -torch.inf].norm())
        known = _Known(step, slots, y, scores, contributions)
        self._known += [known] if shared else []
        return known

    def _scored(
        self, arm: StackArm, number: int, output: LayerOutput, inputs: StepInputs, known: _Known
    ) -> dict[str, float]:
        exact = _with_score(arm.layers[number], self.reference.layers[number].stages.select.score)
        scores = exact.index_scores(output.x, inputs, arm.caches[number])
        seen = known.scores > -torch.inf
        return {
            "scores": float((scores[seen] - known.scores[seen]).norm()) / max(known.contributions, 1e-30),
            "selection": shortfall(scores, chosen(exact, output, inputs), seen),
        }


def _absolute(score: Score) -> Score:
    return lambda q, weights, *rest: score(q, weights.abs(), *rest)


def _with_score(layer: Layer, score: Score) -> Layer:
    select = replace(layer.stages.select, score=score)
    return replace(layer, stages=replace(layer.stages, select=select))


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """||actual - expected|| / ||expected||; NaN where either has one."""
    return float((actual.float() - expected.float()).norm() / expected.float().norm().clamp(min=1e-30))


def row_error(actual: Tensor, expected: Tensor) -> float:
    """The worst row of [T, hidden]: its error over its norm, or over the average row's where that is larger."""
    norms = expected.float().norm(dim=1)
    errors = (actual.float() - expected.float()).norm(dim=1) / norms.clamp(min=float(norms.mean()))
    return float(errors.max()) if len(errors) else 0.0


def misselection(layer: Layer, output: LayerOutput, inputs: StepInputs) -> str | None:
    """What is wrong with a selection by count, range or repeats: topk entries of a csa layer, all of an hca layer."""
    lengths, visible = output.selection.lengths.long(), inputs.batch.rows.visible(layer.model.ratio(layer.kind)).long()
    entries = _entries(layer, output, inputs)
    column = torch.arange(entries.shape[1], device=entries.device)
    wanted = visible.clamp(max=layer.model.topk) if layer.kind == "csa" else visible
    inside = column < lengths[:, None]
    taken = chosen(layer, output, inputs)
    faults = {
        "does not select as many entries as it should": lengths != wanted,
        "has an entry that is not visible to it, or -1 before the tail": (
            (inside & ((entries < 0) | (entries >= visible[:, None]))) | (~inside & (entries != -1))
        ).any(1),
        "selects an entry twice": taken.sum(1) != wanted,
    }
    for fault, rows in faults.items():
        if rows.any():
            return f"row {int(rows.nonzero()[0])} {fault}"
    return None


def chosen(layer: Layer, output: LayerOutput, inputs: StepInputs) -> Tensor:
    """bool [T, max_seq_len // ratio]: which entries each row selects."""
    entries = _entries(layer, output, inputs)
    width = inputs.batch.max_seq_len // layer.model.ratio(layer.kind)
    column = entries.masked_fill((entries < 0) | (entries >= width), width)
    return torch.zeros(len(entries), width + 1, dtype=torch.bool, device=entries.device).scatter(1, column, True)[
        :, :-1
    ]


def _entries(layer: Layer, output: LayerOutput, inputs: StepInputs) -> Tensor:
    return entries_of(output.selection.slots, inputs.batch.rows, inputs.pages[f"{layer.kind}.entries"])


def shortfall(scores: Tensor, taken: Tensor, seen: Tensor) -> float:
    """The best entry left out above the worst one taken, of the worst row, in standard deviations of its scores."""
    if not seen.any():
        return 0.0
    worst_taken = scores.masked_fill(~taken, torch.inf).amin(1)
    best_left = scores.masked_fill(taken | ~seen, -torch.inf).amax(1)
    count, known = seen.sum(1).clamp(min=1), scores.masked_fill(~seen, 0)
    spread = (known.square().sum(1) / count - (known.sum(1) / count).square()).clamp(min=1e-30).sqrt()
    return float(((best_left - worst_taken) / spread).clamp(min=0).max())


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other if one is None or other is None else torch.equal(one, other)
