"""One attention layer: what goes from stage to stage."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from kernels.contracts import (
    Attend,
    Combine,
    Compress,
    Cover,
    Emit,
    Gather,
    Ingest,
    Keys,
    Norm,
    Project,
    Scored,
    Stream,
)
from kernels.layouts import Cache, PlainCache, Workspace
from kernels.rope import Rope
from pipeline.engine.batch import StepInputs
from pipeline.engine.select import Gathered, Indexer, Select, Selection
from pipeline.engine.streams import Beside
from pipeline.engine.weights import LayerWeights, overlap
from pipeline.fields import MAX_TOKENS
from pipeline.schema import Kind, Model


@dataclass(frozen=True)
class Prefill:
    gather: Gather
    combine: Combine

    @classmethod
    def parts(cls) -> tuple[str, ...]:
        return tuple(part.name for part in fields(cls))


@dataclass(frozen=True)
class Stages:
    ingest: Ingest
    compress: Compress
    select: Select
    cover: Cover
    prefill: Prefill | None  # None: prompts too are attended straight from the caches
    attend: Attend
    emit: Emit
    norm: Norm
    project: Project
    share: bool  # what does not differ between the layers of a kind is made once a step
    streams: int  # 2: compress and select run beside the query's projections and ingest


@dataclass(frozen=True)
class LayerCaches:
    """What a layer keeps of the tokens it has seen; None where its kind has no use for it."""

    window: Cache
    main: Cache | None = None
    main_state: PlainCache | None = None
    main_tickets: Tensor | None = None
    index: Cache | None = None
    index_state: PlainCache | None = None
    index_tickets: Tensor | None = None


@dataclass(frozen=True)
class LayerOutput:
    kind: Kind
    x: Tensor  # [T, hidden], what went in
    y: Tensor  # [T, hidden]
    selection: Selection | Gathered | None  # None in swa layers


@dataclass(frozen=True)
class Layer:
    kind: Kind
    model: Model
    weights: LayerWeights
    rope: Rope
    stages: Stages

    def __call__(
        self,
        x: Tensor,
        step: StepInputs,
        caches: LayerCaches,
        selection: Selection | Gathered | None = None,
        shared: dict[Kind, Any] | None = None,
    ) -> LayerOutput:
        """x [T, hidden]. A given selection replaces the layer's own, and is attended straight from the caches.

        `shared` holds what layers of a kind share in this step.
        """
        model, weights, rows = self.model, self.weights, step.batch.rows
        beside = Beside.of(x.device, self.stages.streams if self.kind != "swa" else 1)
        begun = beside.mark()
        latent, kv = self._latent_and_kv(x)
        projected = beside.mark()
        q = self.stages.project(latent, weights.q).unflatten(-1, (-1, model.head_dim))
        q = self.stages.ingest(
            q, kv, weights.kv_norm, model.norm_eps, self.rope, rows, caches.window, step.pages["window"]
        )
        if self.kind != "swa":
            with beside.after(begun):
                self._compress(x, step, caches)
        if self.stages.prefill and not step.decodes and selection is None:
            beside.join()
            keys, selection = self._gathered(latent, x, step, caches, shared)
        else:
            keys = [Keys(caches.window, step.window_slots, step.window_lengths)]
            if self.kind != "swa":
                with beside.after(projected):
                    selection = selection or self._select(latent, x, step, caches, shared)
                keys.append(Keys(caches.main, selection.slots, selection.lengths))
            beside.join()
        o = self.stages.attend(q, keys, weights.sink, model.head_dim**-0.5)
        y = self.stages.project(self.stages.emit(o, self.rope, rows, weights.o_a), weights.o_b)
        return LayerOutput(self.kind, x, y, selection)

    def compressed(self, x: Tensor) -> Tensor:
        """float32: kv and score of the compressors side by side."""
        return _float32_linear(x, self.weights.compress)

    def index_scores(self, x: Tensor, step: StepInputs, caches: LayerCaches) -> Tensor:
        """float32 [T, max_seq_len // ratio]: the scores of a csa layer whose caches hold the step."""
        indexer = self._indexer(step, caches)
        width = step.batch.max_seq_len // indexer.ratio
        return self.stages.select.scores(self._latent_and_kv(x)[0], x, step.batch.rows, width, indexer)

    def _latent_and_kv(self, x: Tensor) -> tuple[Tensor, Tensor]:
        model, weights = self.model, self.weights
        latent, kv = self.stages.project(x, weights.q_kv).split([model.q_lora_rank, model.head_dim], -1)
        return self.stages.norm(latent, weights.q_norm, model.norm_eps), kv

    def _compress(self, x: Tensor, step: StepInputs, caches: LayerCaches) -> None:
        weights, factor = self.weights, overlap(self.kind)
        targets = [(factor * self.model.head_dim, weights.main, caches.main_state, caches.main, caches.main_tickets)]
        if self.kind == "csa":
            index = weights.index, caches.index_state, caches.index, caches.index_tickets
            targets.append((factor * self.model.index_dim, *index))
        widths = [width for width, *_ in targets for _ in range(2)]
        projected = iter(self.compressed(x).split(widths, -1))
        streams = [
            Stream(next(projected), next(projected), compressor.ape, compressor.norm, state, cache, tickets)
            for _, compressor, state, cache, tickets in targets
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
        return Indexer(
            self.weights, self.stages.project, self.rope, caches.index, pages, model.ratio(self.kind), model.topk
        )

    def _select(
        self, latent: Tensor, x: Tensor, step: StepInputs, caches: LayerCaches, shared: dict[Kind, Any] | None
    ) -> Selection:
        if self.kind == "csa":
            return self.stages.select(latent, x, step, self._indexer(step, caches))
        rows, pages, ratio = step.batch.rows, step.pages[f"{self.kind}.entries"], self.model.ratio(self.kind)
        longest, capacity = step.batch.max_seq_len // ratio, MAX_TOKENS // ratio
        slots, lengths = self._once(shared, lambda: self.stages.cover(rows, pages, ratio, longest, capacity))
        return Selection(slots, lengths, _unscored(x))

    def _gathered(
        self, latent: Tensor, x: Tensor, step: StepInputs, caches: LayerCaches, shared: dict[Kind, Any] | None
    ) -> tuple[list[Keys], Gathered | None]:
        """Everything that the step attends, in one workspace of rows of x's dtype."""
        batch, ratio, window, prefill = step.batch, self.model.ratio(self.kind), self.model.window, self.stages.prefill
        longest = batch.max_seq_len
        space = Workspace(longest // ratio if ratio else 0, min(longest, len(x) + window - 1), window)
        pages = step.pages.get(f"{self.kind}.entries")
        if self.kind == "csa":
            chosen, scored = self.stages.select.choose(latent, x, step, self._indexer(step, caches))
            topk = self.model.topk
            indices, lengths = prefill.combine(chosen, scored, batch, ratio, topk, space)
        else:
            scored, topk = _unscored(x), space.entries
            indices, lengths = self._once(shared, lambda: prefill.combine(None, scored, batch, ratio, topk, space))
        rows = prefill.gather(caches.main, pages, caches.window, step.pages["window"], batch, ratio, space, x.dtype)
        selection = None if self.kind == "swa" else Gathered(indices, topk, space, batch.rows, pages, scored)
        return [Keys(rows, indices, lengths)], selection

    def _once(self, shared: dict[Kind, Any] | None, make: Callable[[], Any]) -> Any:
        if shared is None or not self.stages.share:
            return make()
        if self.kind not in shared:
            shared[self.kind] = make()
        return shared[self.kind]


def _unscored(x: Tensor) -> Scored:
    return Scored(torch.empty(0, dtype=torch.int64, device=x.device))


def _float32_linear(x: Tensor, weight: Tensor) -> Tensor:
    if x.dtype == weight.dtype == torch.bfloat16:
        return torch.mm(x, weight.T, out_dtype=torch.float32)
    return linear(x.float(), weight)
