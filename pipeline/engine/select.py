"""The select stage of a layer: shortcut, score, topk and locate, each an implementation of its own."""

from dataclasses import dataclass, fields
from functools import cached_property

from torch import Tensor
from torch.nn.functional import linear

from kernels.contracts import Locate, Pages, Project, Rows, Score, Scored, Shortcut, TopK
from kernels.layouts import Cache, Workspace, slots_of
from kernels.rope import Rope
from pipeline.engine.batch import StepInputs
from pipeline.engine.weights import LayerWeights


@dataclass(frozen=True)
class Selection:
    slots: Tensor  # int32 [T, K]
    lengths: Tensor  # int32 [T]
    scored: Scored  # rows whose entries the indexer chose; the others attend all they can see


@dataclass(frozen=True)
class Gathered:
    """A selection by where it was gathered to. Slots are worked out when somebody asks, never under the clock."""

    indices: Tensor  # int32 [T, columns] into the workspace
    topk: int  # the first so many columns may be entries
    space: Workspace
    rows: Rows
    pages: Pages
    scored: Scored

    @cached_property
    def slots(self) -> Tensor:
        """int32 [T, topk]; -1 also for a row of the workspace that is no entry of the token's own request."""
        entries = self.indices[:, : self.topk] - (self.rows.request * self.space.rows)[:, None]
        entries = entries.masked_fill((entries < 0) | (entries >= self.space.entries), -1)
        return slots_of(self.pages.block_table, self.rows.request[:, None], entries, self.pages.page_size).int()

    @cached_property
    def lengths(self) -> Tensor:
        """int32 [T]."""
        return (self.slots >= 0).sum(1).int()


@dataclass(frozen=True)
class Indexer:
    """What a csa layer selects with, and from."""

    weights: LayerWeights
    project: Project
    rope: Rope
    cache: Cache
    pages: Pages
    ratio: int
    topk: int


@dataclass(frozen=True)
class Select:
    score: Score
    topk: TopK
    shortcut: Shortcut
    locate: Locate

    @classmethod
    def parts(cls) -> tuple[str, ...]:
        return tuple(part.name for part in fields(cls))

    def __call__(self, latent: Tensor, x: Tensor, step: StepInputs, indexer: Indexer) -> Selection:
        """latent [T, q_lora_rank], x [T, hidden]."""
        chosen, scored = self.choose(latent, x, step, indexer)
        slots, lengths = self.locate(chosen, scored, step.batch.rows, indexer.pages, indexer.ratio, indexer.topk)
        return Selection(slots, lengths, scored)

    def choose(self, latent: Tensor, x: Tensor, step: StepInputs, indexer: Indexer) -> tuple[Tensor | None, Scored]:
        """Entry numbers int32 [S, topk] of the scored rows. The indexer's query is projected for those only."""
        scored = self.shortcut(step.batch, indexer.ratio, indexer.topk)
        if scored.skips_all:
            return None, scored
        rows, visible = step.batch.rows, step.visible["csa"]
        if scored.index is not None:
            latent, x = latent[scored.index], x[scored.index]
            rows, visible = rows.take(scored.index), visible[scored.index]
        scores = self.scores(latent, x, rows, step.batch.max_seq_len // indexer.ratio, indexer)
        return self.topk(scores, visible, indexer.topk), scored

    def scores(self, latent: Tensor, x: Tensor, rows: Rows, width: int, indexer: Indexer) -> Tensor:
        """float32 [S, width], one row for each row of latent."""
        weights = indexer.weights
        q = indexer.project(latent, weights.index_q).unflatten(-1, (weights.index_weights.shape[0], -1))
        w = linear(x, weights.index_weights)
        return self.score(q, w, indexer.rope, rows, indexer.cache, indexer.pages, indexer.ratio, width)
