"""Decode steps as CUDA graphs.

A graph is captured for each padded batch size and path, and replayed for every step that has them, whatever its
lengths: rows that pad the batch are inert, widths are those of the longest step of the case, and what depends on a
length is read on the device. Whether scoring is skipped is decided on the host before a replay and picks the graph; it
is never part of one (vLLM #52492 shows what happens otherwise).
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from kernels.contracts import Batch, Pages, Rows, Scored
from pipeline.engine.arms.arm import StackArm, StageArm
from pipeline.engine.batch import StepInputs
from pipeline.engine.layer import LayerOutput, Stages


@dataclass(frozen=True)
class Decided:
    """A shortcut whose decision was made before."""

    scored: Scored

    def __call__(self, batch: Batch, ratio: int, topk: int) -> Scored:
        return self.scored


@dataclass
class Captured:
    replay: Callable[[], None]
    inputs: StepInputs
    x: Tensor
    outputs: list[LayerOutput]
    _real: dict[int, list[LayerOutput]] = field(default_factory=dict)

    def rows(self, tokens: int) -> list[LayerOutput]:
        """The outputs without the rows that pad them."""
        if tokens not in self._real:
            self._real[tokens] = [_first(output, tokens) for output in self.outputs]
        return self._real[tokens]


class GraphArm(StackArm):
    """Steps in which every request decodes one token are replayed; others run eagerly.

    ValueError from `prepare` where the shortcut picks rows on the host, which no graph can hold.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._captured: dict[tuple[int, bool], Captured] = {}
        self._of_step: dict[int, Captured] = {}

    def prepare(self, step: int) -> None:
        """Prefixes; then the step's inputs in the buffers of its graph, which is captured where it is new."""
        super().prepare(step)
        inputs = self.plan.inputs[step]
        if not inputs.decodes:
            return
        key = 1 << (inputs.tokens - 1).bit_length(), self._skips(inputs)
        if key not in self._captured:
            self._captured[key] = self._capture(*key, step)
        self._of_step[step] = self._captured[key]
        self._fill(self._captured[key], step)

    def replays(self, step: int) -> bool:
        return step in self._of_step

    def step(self, step: int) -> list[LayerOutput]:
        captured = self._of_step.get(step)
        if captured is None:
            return super().step(step)
        captured.replay()
        return captured.rows(self.plan.inputs[step].tokens)

    def surroundings(self, step: int) -> tuple[Stages, Tensor, StepInputs]:
        """Those of the step's graph, copied from its buffers."""
        captured = self._of_step.get(step)
        if captured is None:
            return super().surroundings(step)
        return self._decided(self._skips(self.plan.inputs[step])), captured.x.clone(), deepcopy(captured.inputs)

    def _decided(self, skips: bool) -> Stages:
        none = torch.empty(0, dtype=torch.int64, device=self.blueprint.device)
        decided = Decided(Scored(none if skips else None))
        return replace(self.stages, select=replace(self.stages.select, shortcut=decided))

    def _skips(self, inputs: StepInputs) -> bool:
        if "csa" not in self.blueprint.kinds:
            return False
        model = self.blueprint.model
        scored = self.stages.select.shortcut(inputs.batch, model.compress_ratio, model.topk)
        if scored.index is not None and not scored.skips_all:
            raise ValueError(
                f"{type(self.stages.select.shortcut).__module__} picks rows on the host, and a CUDA graph cannot hold "
                "that; use engine.graph=off, or a shortcut that decides for the whole batch or on the device"
            )
        return scored.skips_all

    def _capture(self, size: int, skips: bool, step: int) -> Captured:
        device = self.blueprint.device
        layers = self.blueprint.layers(self._decided(skips))
        inputs = _buffers([each for each in self.plan.inputs if each.decodes], size)
        captured = Captured(lambda: None, inputs, self.hidden[step].new_zeros(size, self.hidden[step].shape[1]), [])
        self._fill(captured, step)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            self.forward(layers, captured.x, inputs)
        torch.cuda.current_stream(device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured.outputs = self.forward(layers, captured.x, inputs)
        captured.replay = graph.replay
        return captured

    def _fill(self, captured: Captured, step: int) -> None:
        for buffer, value, inert in _pairs(captured.inputs, self.plan.inputs[step]):
            buffer.fill_(inert)
            buffer[tuple(slice(size) for size in value.shape)] = value
        captured.x.zero_()[: len(self.hidden[step])] = self.hidden[step]


@dataclass
class GraphStageArm(StageArm):
    """A stage alone, `repeats` calls in one graph: a launch costs as much as a small kernel runs.

    `prepare` raises where the stage asks the device something while it is captured.
    """

    repeats: int = 20
    _graphs: dict[int, torch.cuda.CUDAGraph] = field(default_factory=dict)

    def prepare(self, step: int) -> None:
        if step in self._graphs:
            return
        super().step(step)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(self.repeats):
                super().step(step)
        self._graphs[step] = graph

    def replays(self, step: int) -> bool:
        return step in self._graphs

    def step(self, step: int) -> None:
        self._graphs[step].replay()


def _buffers(steps: list[StepInputs], size: int) -> StepInputs:
    """Inert inputs of `size` rows, wide enough for all the steps."""
    first = steps[0]

    def like(tensor: Tensor, *shape: int) -> Tensor:
        return tensor.new_zeros(shape)

    rows = first.batch.rows
    pages = {
        name: Pages(
            like(held.block_table, size, max(step.pages[name].block_table.shape[1] for step in steps)),
            held.page_size,
            like(held.slot_mapping, size),
        )
        for name, held in first.pages.items()
    }
    batch = Batch(
        Rows(like(rows.positions, size), like(rows.request, size), like(rows.valid, size)),
        like(first.batch.query_start_loc, size + 1),
        like(first.batch.seq_lens, size),
        max(step.batch.max_seq_len for step in steps),
    )
    window = like(first.window_slots, size, first.window_slots.shape[1])
    visible = {kind: like(held, size) for kind, held in first.visible.items()}
    return StepInputs(batch, pages, window, like(first.window_lengths, size), visible, size)


def _pairs(buffers: StepInputs, step: StepInputs) -> list[tuple[Tensor, Tensor, int]]:
    """Each buffer, what belongs into it, and what makes the rest inert."""
    held, given = buffers.batch, step.batch
    pairs = [
        (held.rows.positions, given.rows.positions, 0),
        (held.rows.request, given.rows.request, 0),
        (held.rows.valid, given.rows.valid, 0),
        (held.query_start_loc, given.query_start_loc, step.tokens),
        (held.seq_lens, given.seq_lens, 0),
        (buffers.window_slots, step.window_slots, -1),
        (buffers.window_lengths, step.window_lengths, 0),
        *((visible, step.visible[kind], 0) for kind, visible in buffers.visible.items()),
    ]
    for name, pages in buffers.pages.items():
        pairs.append((pages.block_table, step.pages[name].block_table, 0))
        pairs.append((pages.slot_mapping, step.pages[name].slot_mapping, -1))
    return pairs


def _first(output: LayerOutput, tokens: int) -> LayerOutput:
    selection = output.selection
    if selection is not None:
        selection = replace(selection, slots=selection.slots[:tokens], lengths=selection.lengths[:tokens])
    return replace(output, x=output.x[:tokens], y=output.y[:tokens], selection=selection)
