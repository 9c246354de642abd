"""What goes into and out of each stage of a DeepSeek-V4 attention layer.

Shapes
    T   tokens of the step, padded rows included       H   query heads of this rank
    R   requests of the step                           D   head width, D = N + E
    S   rows that are scored, S <= T                   N   head channels without position
    W   sliding window, in tokens                      E   rotated channels, the last of the head
    C   compress_ratio: tokens per compressed entry    I   index heads
    K   width of a selection (topk for csa)            X   index head width
    P   columns of a block table                       F   1 + overlap: windows pooled into an entry

A slot is page * page_size + row: the place of one row in a paged cache, over all requests. -1 is no place.
Every stage computes in float32 inside and returns the dtype of its main input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from kernels.layouts import Cache, PlainCache, Workspace
from kernels.rope import Rope


@dataclass(frozen=True)
class Rows:
    """The tokens of a step, one row each."""

    positions: Tensor  # int32 [T], 0 in padded rows
    request: Tensor  # int32 [T], row of the block tables; 0 in padded rows
    valid: Tensor  # bool [T], False in padded rows

    def take(self, index: Tensor) -> "Rows":
        return Rows(self.positions[index], self.request[index], self.valid[index])

    def visible(self, ratio: int) -> Tensor:
        """int32 [T]: compressed entries a token may attend, floor((position + 1) / ratio); 0 in padded rows.

        Ratio 0, where nothing is compressed, gives 0.
        """
        if not ratio:
            return torch.zeros_like(self.positions)
        return ((self.positions + 1) // ratio).masked_fill(~self.valid, 0).int()


@dataclass(frozen=True)
class Pages:
    """How the requests of a step lie in one paged cache."""

    block_table: Tensor  # int32 [R, P]: page of each request's rows; unused columns hold 0, the null page
    page_size: int  # rows in a page
    slot_mapping: Tensor  # int64 [T]: slot that each token's row is written to, -1 for none


@dataclass(frozen=True)
class Batch:
    """One step as the kernels see it. `max_seq_len` is the only length that the host knows."""

    rows: Rows
    query_start_loc: Tensor  # int32 [R + 1]
    seq_lens: Tensor  # int32 [R], tokens of the request after this step
    max_seq_len: int

    @property
    def computed(self) -> Tensor:
        """int32 [R]: tokens of the request before this step."""
        return self.seq_lens - self.query_start_loc.diff()


@dataclass(frozen=True)
class Stream:
    """One compressor at work: the main one, or the indexer's."""

    kv: Tensor  # float32 [T, F * d], d = D or X
    score: Tensor  # float32 [T, F * d]
    ape: Tensor  # float32 [C, F * d]
    norm: Tensor  # [d]
    state: PlainCache  # rows [F * d | F * d] float32: kv, score + ape
    cache: Cache  # where finished entries go
    tickets: Tensor  # `tickets_for(cache)`: all 0 before a call and after it; calls that share them must not overlap


@dataclass(frozen=True)
class Keys:
    """The keys that each token attends in one cache."""

    cache: Cache
    slots: Tensor  # int32 [T, K], -1 for none
    lengths: Tensor  # int32 [T]: columns to look at; the rest is ignored


@dataclass(frozen=True)
class Scored:
    """Which rows of a step need scores; every other row attends all its visible entries.

    `index` is None when all rows do, else int64 [S] row numbers, ascending: those that see more entries than topk. An
    empty index skips the indexer.
    """

    index: Tensor | None

    @property
    def skips_all(self) -> bool:
        return self.index is not None and self.index.numel() == 0


class Ingest(Protocol):
    def __call__(
        self, q: Tensor, kv: Tensor, kv_norm: Tensor, eps: float, rope: Rope, rows: Rows, cache: Cache, pages: Pages
    ) -> Tensor:
        """q [T, H, D]: RMS norm per head without weight, RoPE, returned in q's dtype.

        kv [T, D]: RMS norm with weight kv_norm [D], RoPE, written to the window cache at pages.slot_mapping.
        """


class Compress(Protocol):
    def __call__(
        self, streams: Sequence[Stream], eps: float, rope: Rope, rows: Rows, state_pages: Pages, pages: Pages
    ) -> None:
        """Store (kv, score + ape) of every token; pool each window that closes in this step into an entry.

        An entry is closed by the token whose pages.slot_mapping is not -1: (position + 1) % C == 0. It pools, softmax
        per channel over score, the C rows of its own window (the last d channels) and, where F = 2, the C rows of the
        window before (the first d channels; weight 0 before the first token). Then RMS norm, RoPE at the position of
        the window's first token, insert. C is ape.shape[0], F is ape.shape[1] // d. The tokens of a request are
        neighbours, in order.
        """


class Shortcut(Protocol):
    def __call__(self, batch: Batch, ratio: int, topk: int) -> Scored:
        """Which rows need scores. A row with visible <= topk never does."""


class Score(Protocol):
    def __call__(
        self, q: Tensor, weights: Tensor, rope: Rope, rows: Rows, cache: Cache, pages: Pages, ratio: int, width: int
    ) -> Tensor:
        """q [S, I, X] before RoPE, weights [S, I] unscaled, rows of length S -> float32 [S, width].

        score = sum_h w_h * X**-0.5 * I**-0.5 * relu(q_h . k_i), -inf where i >= visible. With an fp8 index cache q is
        quantised to e4m3 too, one power-of-two scale per (token, head) folded into the weights, as vLLM does.
        """


class TopK(Protocol):
    def __call__(self, scores: Tensor, visible: Tensor, topk: int) -> Tensor:
        """scores [S, width], visible int32 [S] -> int32 [S, topk] entry numbers of the request, -1 at the tail.

        Exactly min(topk, visible) entries of [0, visible), without repeats, in any order. Equal scores: the lowest
        entry wins. NaN counts as -inf. The reference orders by descending score, then ascending entry.
        """


class Locate(Protocol):
    def __call__(
        self, chosen: Tensor | None, scored: Scored, rows: Rows, pages: Pages, ratio: int, width: int
    ) -> tuple[Tensor, Tensor]:
        """Entry numbers -> slots int32 [T, width] (-1 at the tail) and lengths int32 [T].

        chosen int32 [S, width] belongs to the scored rows (None when scored.skips_all). Every other row attends all its
        visible entries in ascending order (visible <= width). A padded row gets length 0 and only -1.
        """


class Cover(Protocol):
    def __call__(self, rows: Rows, pages: Pages, ratio: int, longest: int, capacity: int) -> tuple[Tensor, Tensor]:
        """All that each row sees, for layers that do not select: slots int32 [T, K], -1 at the tail, lengths int32 [T].

        longest <= K <= capacity: entries of the longest request, and of the longest there could be. Rows of slots may
        lie further apart than K. A padded row gets length 0 and only -1.
        """


class Gather(Protocol):
    def __call__(
        self,
        main: Cache | None,
        main_pages: Pages | None,
        window: Cache,
        window_pages: Pages,
        batch: Batch,
        ratio: int,
        space: Workspace,
        dtype: torch.dtype,
    ) -> PlainCache:
        """Every row that the step may attend, dequantised, in pages of one row: page r * space.rows + i.

        main is None where ratio is 0. Rows of the workspace that stand for nothing hold anything. ValueError where the
        workspace would be larger than it may be; no row is ever left out.
        """


class Combine(Protocol):
    def __call__(
        self, chosen: Tensor | None, scored: Scored, batch: Batch, ratio: int, topk: int, space: Workspace
    ) -> tuple[Tensor, Tensor]:
        """Rows of a workspace that each token attends: int32 [T, space.columns(topk)], -1 at the tail, lengths [T].

        For a token at position p the first n = min(visible, topk) columns are its entries, chosen as for Locate; the
        next min(p + 1, W) its window in ascending order. A padded row, or a negative position, gets length 0.
        """


class Attend(Protocol):
    def __call__(self, q: Tensor, keys: Sequence[Keys], sink: Tensor | None, scale: float) -> Tensor:
        """q [T, H, D], one softmax over the keys of all sources -> [T, H, D]. Keys are values too.

        Keys whose slot is -1, wherever it stands, or whose column is >= lengths do not take part. sink float32 [H] is
        one more logit with no value; -inf is as None; +inf, and a row with no key, give zeros.
        """


class Emit(Protocol):
    def __call__(self, o: Tensor, rope: Rope, rows: Rows, wo_a: Tensor) -> Tensor:
        """o [T, H, D] -> inverse RoPE at the query's position, then the grouped projection -> [T, G * rank].

        wo_a [G, rank, H * D / G]; groups are contiguous heads.
        """


class Norm(Protocol):
    def __call__(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """RMS norm of x [T, L], whose rows may lie apart, with weight [L]; computed in float32."""


class Project(Protocol):
    """The products with the weights that a checkpoint has in fp8. Where it has bf16 or float32 they are torch's."""

    def prepared(self, weight: Tensor) -> Any:
        """weight [N, K] in the form that a call takes: made once, when an arm is built."""

    def __call__(self, x: Tensor, weight: Any) -> Tensor:
        """x [T, K] -> [T, N]."""
