"""One attention layer: projections here, everything else in the five stages."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, rms_norm

from kernels.contracts import Attend, Compress, Emit, Ingest, Keys, Scored, Stream
from kernels.layouts import Cache, PlainCache
from kernels.rope import Rope
from pipeline.engine.batch import StepInputs
from pipeline.engine.select import Indexer, Select, Selection
from pipeline.engine.weights import LayerWeights, overlap
from pipeline.schema import Kind, Model


@dataclass(frozen=True)
class Stages:
    ingest: Ingest
    compress: Compress
    select: Select
    attend: Attend
    emit: Emit


@dataclass(frozen=True)
class LayerCaches:
    """What a layer keeps of the tokens it has seen; None where its kind has no use for it."""

    window: Cache
    main: Cache | None = None
    main_state: PlainCache | None = None
    index: Cache | None = None
    index_state: PlainCache | None = None


@dataclass(frozen=True)
class LayerOutput:
    kind: Kind
    x: Tensor  # [T, hidden], what went in
    y: Tensor  # [T, hidden]
    selection: Selection | None  # None in swa layers


@dataclass(frozen=True)
class Layer:
    kind: Kind
    model: Model
    weights: LayerWeights
    rope: Rope
    stages: Stages

    def __call__(
        self, x: Tensor, step: StepInputs, caches: LayerCaches, selection: Selection | None = None
    ) -> LayerOutput:
        """x [T, hidden]. A given selection replaces the layer's own."""
        model, weights, rows = self.model, self.weights, step.batch.rows
        latent, kv = self._latent_and_kv(x)
        q = linear(latent, weights.q).unflatten(-1, (-1, model.head_dim))
        q = self.stages.ingest(
            q, kv, weights.kv_norm, model.norm_eps, self.rope, rows, caches.window, step.pages["window"]
        )
        keys = [Keys(caches.window, step.window_slots, step.window_lengths)]
        if self.kind != "swa":
            self._compress(x, step, caches)
            selection = selection or self._select(latent, x, step, caches)
            keys.append(Keys(caches.main, selection.slots, selection.lengths))
        o = self.stages.attend(q, keys, weights.sink, model.head_dim**-0.5)
        return LayerOutput(self.kind, x, self.stages.emit(o, self.rope, rows, weights.o_a, weights.o_b), selection)

    def index_scores(self, x: Tensor, step: StepInputs, caches: LayerCaches) -> Tensor:
        """float32 [T, max_seq_len // ratio]: the scores of a csa layer whose caches hold the step."""
        indexer = self._indexer(step, caches)
        width = step.batch.max_seq_len // indexer.ratio
        return self.stages.select.scores(self._latent_and_kv(x)[0], x, step.batch.rows, width, indexer)

    def _latent_and_kv(self, x: Tensor) -> tuple[Tensor, Tensor]:
        model, weights = self.model, self.weights
        latent, kv = linear(x, weights.q_kv).split([model.q_lora_rank, model.head_dim], -1)
        return rms_norm(latent.float(), weights.q_norm.shape, weights.q_norm, model.norm_eps).to(x.dtype), kv

    def _compress(self, x: Tensor, step: StepInputs, caches: LayerCaches) -> None:
        weights, factor = self.weights, overlap(self.kind)
        targets = [(weights.main, caches.main_state, caches.main, factor * self.model.head_dim)]
        if self.kind == "csa":
            targets.append((weights.index, caches.index_state, caches.index, factor * self.model.index_dim))
        widths = [width for *_, width in targets for _ in range(2)]
        projected = iter(_float32_linear(x, weights.compress).split(widths, -1))
        streams = [
            Stream(next(projected), next(projected), compressor.ape, compressor.norm, state, cache)
            for compressor, state, cache, _ in targets
        ]
        self.stages.compress(
            streams,
            self.model.norm_eps,
            self.rope,
            step.batch.rows,
            step.pages[f"{self.kind}.state"],
            step.pages[f"{self.kind}.entries"],
        )

    def _indexer(self, step: StepInputs, caches: LayerCaches) -> Indexer:
        model, pages = self.model, step.pages[f"{self.kind}.entries"]
        return Indexer(self.weights, self.rope, caches.index, pages, model.ratio(self.kind), model.topk)

    def _select(self, latent: Tensor, x: Tensor, step: StepInputs, caches: LayerCaches) -> Selection:
        if self.kind == "csa":
            return self.stages.select(latent, x, step, self._indexer(step, caches))
        unscored = Scored(torch.empty(0, dtype=torch.int64, device=x.device))
        pages, ratio = step.pages[f"{self.kind}.entries"], self.model.ratio(self.kind)
        width = step.batch.max_seq_len // ratio
        slots, lengths = self.stages.select.locate(None, unscored, step.batch.rows, pages, ratio, width)
        return Selection(slots, lengths, unscored)


def _float32_linear(x: Tensor, weight: Tensor) -> Tensor:
    if x.dtype == weight.dtype == torch.bfloat16:
        return torch.mm(x, weight.T, out_dtype=torch.float32)
    return linear(x.float(), weight)
