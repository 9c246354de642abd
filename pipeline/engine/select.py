"""The select stage of a layer: shortcut, score, topk and locate, each an implementation of its own."""

from dataclasses import dataclass, fields

from torch import Tensor
from torch.nn.functional import linear

from kernels.contracts import Locate, Pages, Rows, Score, Scored, Shortcut, TopK
from kernels.layouts import Cache
from kernels.rope import Rope
from pipeline.engine.batch import StepInputs
from pipeline.engine.weights import LayerWeights


@dataclass(frozen=True)
class Selection:
    slots: Tensor  # int32 [T, K]
    lengths: Tensor  # int32 [T]
    scored: Scored  # rows whose entries the indexer chose; the others attend all they can see


@dataclass(frozen=True)
class Indexer:
    """What a csa layer selects with, and from."""

    weights: LayerWeights
    rope: Rope
    cache: Cache
    pages: Pages
    ratio: int
    topk: int


@dataclass(frozen=True)
class Select:
    shortcut: Shortcut
    score: Score
    topk: TopK
    locate: Locate

    @classmethod
    def parts(cls) -> tuple[str, ...]:
        return tuple(part.name for part in fields(cls))

    def __call__(self, latent: Tensor, x: Tensor, step: StepInputs, indexer: Indexer) -> Selection:
        """latent [T, q_lora_rank], x [T, hidden]. The indexer's query is projected for the scored rows only."""
        scored = self.shortcut(step.batch, indexer.ratio, indexer.topk)
        chosen = None if scored.skips_all else self._choose(latent, x, step, indexer, scored.index)
        slots, lengths = self.locate(chosen, scored, step.batch.rows, indexer.pages, indexer.ratio, indexer.topk)
        return Selection(slots, lengths, scored)

    def scores(self, latent: Tensor, x: Tensor, rows: Rows, width: int, indexer: Indexer) -> Tensor:
        """float32 [S, width], one row for each row of latent."""
        weights = indexer.weights
        q = linear(latent, weights.index_q).unflatten(-1, (weights.index_weights.shape[0], -1))
        w = linear(x, weights.index_weights)
        return self.score(q, w, indexer.rope, rows, indexer.cache, indexer.pages, indexer.ratio, width)

    def _choose(self, latent: Tensor, x: Tensor, step: StepInputs, indexer: Indexer, index: Tensor | None) -> Tensor:
        rows = step.batch.rows
        if index is not None:
            latent, x, rows = latent[index], x[index], rows.take(index)
        scores = self.scores(latent, x, rows, step.batch.max_seq_len // indexer.ratio, indexer)
        return self.topk(scores, rows.visible(indexer.ratio), indexer.topk)
