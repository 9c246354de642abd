"""The fewest bytes that a stage must move and the products that it must do, from shapes and real lengths.

Each input is read once and each output written once, whatever an implementation does on the way. Rows that several
tokens of a request read count once. Padded rows do not count, nor what is smaller than one row a token: positions,
slots that are written to, block tables, norms, sinks, rotation tables. FLOPs are those of products, two a
multiply-add; elementwise work costs no more than its bytes.

A row is scored where it sees more entries than are selected: below that all of them are, whatever their scores. So the
cost is that of the task, the same for an arm that scores every row and for one that skips some, on host or device.

Widths and what a stage does: section 1 (work per token), 3 (compressor), 4 (indexer), 7 (cache rows) of DeepSeek-V4's
layer as its reference and vLLM have it.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.engine.weights import overlap
from pipeline.evidence.breakdown.geometry import Geometry, Lengths

FLOAT32 = INT32 = 4


@dataclass(frozen=True)
class Cost:
    bytes: int
    flops: int = 0
    fp8_flops: int = 0  # of these, products of two fp8 numbers


def project(layer: Geometry, step: Lengths) -> Cost:
    """x -> latent, kv and, in float32, the compressors' kv and score; latent -> q; o's latent -> y."""
    model, rows = layer.model, step.rows
    query, down = layer.heads * model.head_dim, model.q_lora_rank + model.head_dim
    compressed = 2 * overlap(layer.kind) * sum(channels for channels, _ in layer.streams)
    weights = down * model.hidden + query * model.q_lora_rank + model.hidden * layer.latent
    moved = rows * (model.hidden + down + model.q_lora_rank + query + layer.latent + model.hidden) * layer.element
    moved += weights * layer.weight + compressed * (model.hidden * layer.element + rows * FLOAT32)
    flops = 2 * rows * weights
    return Cost(moved, flops + 2 * rows * compressed * model.hidden, flops * layer.fp8_weights)


def norm(layer: Geometry, step: Lengths) -> Cost:
    """The query's latent."""
    return Cost(2 * step.rows * layer.model.q_lora_rank * layer.element)


def ingest(layer: Geometry, step: Lengths) -> Cost:
    """q read and written, kv read and inserted in the window cache."""
    width = layer.model.head_dim
    return Cost(step.rows * (2 * layer.heads * width * layer.element + width * layer.element + layer.entry))


def compress(layer: Geometry, step: Lengths) -> Cost:
    """kv and score read and stored, finished entries written.

    A window that closes reads those of its rows that earlier steps stored: of the window before the first half of the
    channels, of its own the second.
    """
    ratio, factor = layer.ratio, overlap(layer.kind)
    closes = step.positions[(step.positions + 1) % ratio == 0]
    start = step.starts[step.request[(step.positions + 1) % ratio == 0]]
    stored = np.zeros(len(closes), int)
    for first in [closes + 1 - (back + 1) * ratio for back in range(factor)]:
        stored += np.where(first < 0, 0, np.clip(start - first, 0, ratio))
    moved = 0
    for channels, entry in layer.streams:
        row = 2 * factor * channels * FLOAT32
        moved += 2 * step.rows * row + int(stored.sum()) * row // factor + len(closes) * entry
        moved += ratio * factor * channels * FLOAT32  # ape
    return Cost(moved)


def index_query(layer: Geometry, step: Lengths) -> Cost:
    """latent and x of the scored rows -> index query and head weights."""
    model, rows = layer.model, len(_scored(layer, step))
    query, heads = model.index_heads * model.index_dim, model.index_heads
    weights = query * model.q_lora_rank * layer.weight + heads * model.hidden * layer.element
    moved = weights * (rows > 0) + rows * (model.q_lora_rank + model.hidden + query + heads) * layer.element
    flops = 2 * rows * query * model.q_lora_rank
    return Cost(moved, flops + 2 * rows * heads * model.hidden, flops * layer.fp8_weights)


def score(layer: Geometry, step: Lengths) -> Cost:
    """Logits: 2 * I * X FLOPs for each visible entry of a scored row, and a float32."""
    model, visible, scored = layer.model, _visible(layer, step), _scored(layer, step)
    pairs = int(visible[scored].sum())
    query = len(scored) * model.index_heads * (model.index_dim + 1) * layer.element
    keys = int(step.most(visible, scored).sum()) * layer.index_entry
    flops = 2 * model.index_heads * model.index_dim * pairs
    return Cost(query + keys + pairs * FLOAT32, flops, flops * (layer.engine.index_layout == "fp8"))


def topk(layer: Geometry, step: Lengths) -> Cost:
    """The scores of visible entries read, topk columns written."""
    scored = _scored(layer, step)
    return Cost(int(_visible(layer, step)[scored].sum()) * FLOAT32 + len(scored) * layer.model.topk * INT32)


def locate(layer: Geometry, step: Lengths) -> Cost:
    """The entries chosen for scored rows read, a slot for each column of every row written."""
    return Cost((_chosen(layer, step) + step.rows * layer.model.topk) * INT32)


def select(layer: Geometry, step: Lengths) -> Cost:
    """The whole of it: index query, scores and chosen entries need not leave the chip.

    Where the step is gathered it ends with the chosen entries.
    """
    scored, model = _scored(layer, step), layer.model
    query, logits = index_query(layer, step), score(layer, step)
    between = len(scored) * model.index_heads * (model.index_dim + 1) * layer.element
    scores = int(_visible(layer, step)[scored].sum()) * FLOAT32
    moved = query.bytes + logits.bytes - 2 * between - scores
    moved += (len(scored) if layer.gathered else step.rows) * model.topk * INT32
    return Cost(moved, query.flops + logits.flops, query.fp8_flops + logits.fp8_flops)


def cover(layer: Geometry, step: Lengths) -> Cost:
    """A slot for each entry of the longest request, in every row."""
    return Cost(step.rows * _longest(layer, step) * INT32)


def combine(layer: Geometry, step: Lengths) -> Cost:
    """The entries chosen for scored rows read, a multiple of 128 columns of every row written."""
    entries = layer.model.topk if layer.kind == "csa" else _longest(layer, step)
    columns = -(-(entries + layer.model.window) // 128) * 128
    return Cost((_chosen(layer, step) + step.rows * columns) * INT32)


def gather(layer: Geometry, step: Lengths) -> Cost:
    """Every row of the caches that the step may attend read, and written in the dtype of q."""
    rows = int(_window_rows(layer, step).sum())
    if layer.ratio:
        rows += int(((step.starts + step.tokens) // layer.ratio).sum())
    return Cost(rows * (layer.entry + layer.model.head_dim * layer.element))


def attend(layer: Geometry, step: Lengths) -> Cost:
    """4 * H * D FLOPs for each key of a row; q read, o written, each key row of a request and every slot read once.

    Which entries the rows of a prompt share is not known from lengths: as many as all of them choose, at most those
    that its last row sees.
    """
    model = layer.model
    window, chosen = np.minimum(step.positions + 1, model.window), np.zeros(step.rows, int)
    keys = int(_window_rows(layer, step).sum())
    if layer.ratio:
        visible = _visible(layer, step)
        chosen = np.minimum(visible, model.topk) if layer.kind == "csa" else visible
        every = np.bincount(step.request, chosen, len(step.tokens)).astype(int)
        keys += int(np.minimum(every, step.most(visible, np.arange(step.rows))).sum())
    pairs, query = int(window.sum() + chosen.sum()), step.rows * layer.heads * model.head_dim
    key = model.head_dim * layer.element if layer.gathered else layer.entry
    return Cost(2 * query * layer.element + keys * key + pairs * INT32, 4 * layer.heads * model.head_dim * pairs)


def emit(layer: Geometry, step: Lengths) -> Cost:
    """o -> the latent of each group."""
    width = layer.heads * layer.model.head_dim
    weights = layer.model.o_lora_rank * width
    return Cost((weights + step.rows * (width + layer.latent)) * layer.element, 2 * step.rows * weights)


def cost(stage: str, within: str | None, layer: Geometry, step: Lengths) -> Cost:
    """Of one layer. KeyError for a stage that is not known here."""
    return {
        "project": index_query if within else project,
        "norm": norm,
        "ingest": ingest,
        "compress": compress,
        "select": select,
        "score": score,
        "topk": topk,
        "locate": locate,
        "cover": cover,
        "combine": combine,
        "gather": gather,
        "attend": attend,
        "emit": emit,
    }[stage](layer, step)


def _visible(layer: Geometry, step: Lengths) -> np.ndarray:
    return (step.positions + 1) // layer.ratio


def _scored(layer: Geometry, step: Lengths) -> np.ndarray:
    """Rows of which not all visible entries are selected."""
    return np.flatnonzero(_visible(layer, step) > layer.model.topk)


def _longest(layer: Geometry, step: Lengths) -> int:
    return int((step.starts + step.tokens).max()) // layer.ratio if layer.ratio else 0


def _chosen(layer: Geometry, step: Lengths) -> int:
    """Entries that the indexer chose; rows that are not scored and hca layers attend all they see."""
    return len(_scored(layer, step)) * layer.model.topk if layer.kind == "csa" else 0


def _window_rows(layer: Geometry, step: Lengths) -> np.ndarray:
    """[R]: raw tokens that the rows of each request attend."""
    return step.starts + step.tokens - np.maximum(step.starts - layer.model.window + 1, 0)
