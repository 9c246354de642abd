"""Costs against numbers worked out by hand, and against what the published measurements of such kernels state."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.evidence.breakdown.cost import Cost, cost
from pipeline.evidence.breakdown.geometry import Geometry, Lengths
from pipeline.work.schedule import Chunk, Step
from tests.compose import config


def layer(model="v4_flash", kind="csa", **changes) -> Geometry:
    made = config("+exp=short_ctx", f"model={model}", "engine.device=cpu", "engine.dtype=bf16")
    path = {name: changes.pop(name) for name in ("fp8_weights", "gathered") if name in changes}
    return Geometry(made.model, replace(made.engine, **changes), kind, **path)


def decode(requests: int, context: int) -> Lengths:
    """One token of each request, which sees `context` tokens with itself."""
    return Lengths(np.full(requests, context - 1), np.ones(requests, int))


def prefill(tokens: int, start: int = 0) -> Lengths:
    return Lengths(np.array([start]), np.array([tokens]))


def test_rows_of_the_caches():
    assert (layer().entry, layer().index_entry) == (584, 132)
    plain = layer(kv_layout="plain", index_layout="plain")
    assert (plain.entry, plain.index_entry) == (1024, 256)
    wide = replace(plain, engine=replace(plain.engine, dtype="fp32"))
    assert (wide.entry, wide.index_entry) == (2048, 512)


def test_lengths_follow_the_chunks_of_a_step():
    step = Step(0.0, (Chunk(0, 5, 3, False), Chunk(1, 0, 2, True)))
    lengths = Lengths.of(step)
    assert lengths.positions.tolist() == [5, 6, 7, 0, 1]
    assert lengths.request.tolist() == [0, 0, 0, 1, 1]
    assert lengths.rows == 5


@pytest.mark.parametrize(
    ("model", "core", "csa", "index", "hca"),
    [("v4_flash", 106954752, 8388608, 2097152, 4194304), ("v4_pro", 299892736, 14680064, 3670016, 7340032)],
)
def test_projections_of_a_token_in_multiply_adds(model, core, csa, index, hca):
    """107.0 and 299.9 million without compressors; 8.4 and 14.7 for a csa compressor, 4.2 and 7.3 for hca."""

    def per_token(kind):
        return sum(cost(stage, None, layer(model, kind), decode(1, 64)).flops for stage in ("project", "emit")) / 2

    assert per_token("swa") == core
    assert per_token("csa") == core + csa + index
    assert per_token("hca") == core + hca


@pytest.mark.parametrize(("model", "expected"), [("v4_flash", 8388608 + 262144), ("v4_pro", 12582912 + 458752)])
def test_projections_of_the_indexer(model, expected):
    found = cost("project", "select", layer(model), decode(3, 9000))
    assert found.flops == 2 * 3 * expected


def test_bytes_of_the_projections_are_their_weights_and_rows():
    weights = 1536 * 4096 + 32768 * 1024 + 4096 * 8192
    compressors = 2 * (1024 + 256)
    rows = 4096 + 1536 + 1024 + 32768 + 8192 + 4096
    expected = 2 * (weights + compressors * 4096 + 64 * rows) + 4 * 64 * compressors
    assert cost("project", None, layer(), decode(64, 1024)).bytes == expected
    fp8 = cost("project", None, layer(fp8_weights=True), decode(64, 1024))
    assert fp8.bytes == expected - weights
    assert fp8.fp8_flops == 2 * 64 * weights
    assert fp8.flops == fp8.fp8_flops + 2 * 64 * compressors * 4096
    assert cost("emit", None, layer(), decode(64, 1024)).bytes == 2 * (8192 * 4096 + 64 * (32768 + 8192))


@pytest.mark.parametrize("heads", [64, 8])
def test_ingest_moves_2048_bytes_a_head_and_1608(heads):
    found = cost("ingest", None, layer(tp=64 // heads), prefill(4096))
    assert found == Cost(4096 * (2048 * heads + 1608))
    assert cost("norm", None, layer(), prefill(4096)) == Cost(4096 * 1024 * 4)


def test_compress_moves_20480_bytes_a_token_and_179():
    ape = 4 * (4 * 1024 + 4 * 256)
    assert cost("compress", None, layer(), prefill(4096)).bytes == 4096 * (20480 + 179) + ape
    assert cost("compress", None, layer(kind="hca"), prefill(4096)).bytes == 4096 * 8192 + 32 * 584 + 4 * 128 * 512


def test_compress_in_a_decode_reads_the_windows_that_close():
    idle, closing = cost("compress", None, layer(), decode(64, 1023)), cost("compress", None, layer(), decode(64, 1024))
    stored_rows = 4 + 3  # the window before, and the current one without this token
    assert closing.bytes - idle.bytes == 64 * (stored_rows * (4096 + 1024) + 584 + 132)
    first = cost("compress", None, layer(), decode(64, 4)).bytes
    assert closing.bytes - first == 64 * 4 * (4096 + 1024), "before the first window stands none"
    hca = cost("compress", None, layer(kind="hca"), decode(64, 128)).bytes
    assert hca - cost("compress", None, layer(kind="hca"), decode(64, 127)).bytes == 64 * (127 * 4096 + 584)


def test_a_chunk_reads_only_what_earlier_steps_stored():
    """Tokens 6 and 7 close the window 4..7: rows 4 and 5 are stored, and those of the window 0..3."""
    found = cost("compress", None, layer(), prefill(2, start=6)).bytes
    assert found == 2 * 20480 + (4 + 2) * (4096 + 1024) + 584 + 132 + 4 * (4 * 1024 + 4 * 256)


def test_index_logits_are_16384_flops_an_entry():
    found = cost("score", "select", layer(), decode(64, 4 * 8192))
    assert found.flops == found.fp8_flops == 64 * 2 * 64 * 128 * 8192
    assert found.bytes == 64 * (64 * 129 * 2 + 8192 * 132 + 8192 * 4)
    assert cost("score", "select", layer(index_layout="plain"), decode(1, 4096)).fp8_flops == 0


def test_keys_that_rows_of_a_request_share_are_read_once():
    whole = cost("score", "select", layer(), prefill(4096))
    rows = 4096 - 2051  # the first that sees more than 512 entries is at position 2051
    pairs = 4 * (1023 * 1024 - 512 * 513) // 2 + 1024
    assert pairs == sum((position + 1) // 4 for position in range(2051, 4096))
    assert whole.flops == 16384 * pairs
    assert whole.bytes == rows * 64 * 129 * 2 + 1024 * 132 + 4 * pairs


def test_locate_at_16384_rows_moves_67_megabytes():
    assert cost("locate", "select", layer(), prefill(16384, start=4096)).bytes == 16384 * 512 * 4 * 2 == 67108864


def test_top_k_reads_scores_and_writes_entries():
    assert cost("topk", "select", layer(), decode(64, 4 * 2048)).bytes == 64 * 4 * (2048 + 512)
    assert cost("topk", "select", layer("v4_pro"), decode(2, 8192)).bytes == 2 * 4 * (2048 + 1024)


@pytest.mark.parametrize(("model", "last"), [("v4_flash", 2051), ("v4_pro", 4099)])
def test_rows_that_see_no_more_than_is_selected_need_no_scores(model, last):
    """Up to 512 and 1024 entries, whether an arm scores them or not: only slots are written."""
    here, topk = layer(model), {"v4_flash": 512, "v4_pro": 1024}[model]
    for context in (64, last):
        step = decode(64, context)
        assert cost("select", None, here, step) == cost("locate", "select", here, step) == Cost(64 * topk * 4)
        assert [cost(stage, "select", here, step) for stage in ("project", "score", "topk")] == [Cost(0)] * 3
    beyond = decode(64, last + 1)
    assert cost("score", "select", here, beyond).flops == 64 * 2 * 64 * 128 * (topk + 1)
    assert cost("topk", "select", here, beyond) == Cost(64 * (2 * topk + 1) * 4)
    assert cost("locate", "select", here, beyond) == Cost(64 * 2 * topk * 4)


def test_of_a_chunk_only_the_rows_beyond_are_scored():
    """Positions 2050 to 2053 see 512, 513, 513 and 513 entries."""
    step = prefill(4, start=2050)
    assert cost("score", "select", layer(), step).flops == 16384 * 3 * 513
    assert cost("score", "select", layer(), step).bytes == 3 * 64 * 129 * 2 + 513 * 132 + 3 * 513 * 4
    assert cost("topk", "select", layer(), step) == Cost(3 * (513 + 512) * 4)
    assert cost("locate", "select", layer(), step) == Cost((3 + 4) * 512 * 4)
    assert cost("project", "select", layer(), step).flops == 2 * 3 * (8388608 + 262144)
    query = 2 * (8192 * 1024 + 64 * 4096 + 3 * (1024 + 4096))
    assert cost("select", None, layer(), step).bytes == query + 513 * 132 + 4 * 512 * 4
    assert cost("select", None, layer(gathered=True), step).bytes == query + 513 * 132 + 3 * 512 * 4
    assert cost("combine", None, layer(), step) == Cost((3 * 512 + 4 * 640) * 4)


def test_other_kinds_of_layers_score_nothing():
    assert cost("combine", None, layer(kind="swa"), decode(2, 9000)) == Cost(2 * 128 * 4)
    assert cost("combine", None, layer(kind="hca"), decode(2, 12800)) == Cost(2 * 256 * 4)


def test_whole_selection_does_not_write_what_lies_between():
    step = decode(64, 4 * 8192)
    parts = [cost(stage, "select", layer(), step) for stage in ("project", "score", "topk", "locate")]
    whole = cost("select", None, layer(), step)
    query, scores, chosen = 64 * 64 * 129 * 2, 64 * 8192 * 4, 64 * 512 * 4
    assert whole.bytes == sum(part.bytes for part in parts) - 2 * (query + scores + chosen)
    assert whole.flops == sum(part.flops for part in parts)
    assert cost("select", None, layer(gathered=True), step).bytes == whole.bytes, "slots or entries, as many"


@pytest.mark.parametrize(("model", "heads", "topk"), [("v4_flash", 64, 512), ("v4_pro", 128, 1024)])
def test_attention_of_a_token(model, heads, topk):
    """84 and 302 million FLOPs, 374 and 673 kB of keys."""
    found = cost("attend", None, layer(model), decode(1, 32768))
    assert found.flops == 2 * heads * (128 + topk) * 1024
    assert found.bytes == 2 * heads * 512 * 2 + (128 + topk) * (584 + 4)


def test_attention_by_kind():
    assert cost("attend", None, layer(kind="swa"), decode(1, 32768)).flops == 2 * 64 * 128 * 1024
    assert cost("attend", None, layer(kind="hca"), decode(1, 32768)).flops == 2 * 64 * (128 + 256) * 1024
    assert cost("attend", None, layer(), decode(1, 40)).flops == 2 * 64 * (40 + 10) * 1024


def test_attention_of_a_prompt_reads_each_key_once():
    found = cost("attend", None, layer(), prefill(1000))
    pairs = sum(min(position + 1, 128) + (position + 1) // 4 for position in range(1000))
    assert found.flops == 2 * 64 * pairs * 1024
    assert found.bytes == 2 * 1000 * 64 * 512 * 2 + (1000 + 250) * 584 + 4 * pairs
    later = cost("attend", None, layer(), prefill(10, start=1000))
    assert later.bytes - 2 * 10 * 64 * 512 * 2 - 4 * later.flops // (2 * 64 * 1024) == (137 + 252) * 584
    gathered = cost("attend", None, layer(gathered=True), prefill(1000))
    assert gathered.bytes - found.bytes == (1000 + 250) * (1024 - 584)


def test_prefill_in_a_workspace():
    assert cost("gather", None, layer(), prefill(10, start=1000)) == Cost((137 + 252) * (584 + 1024))
    assert cost("gather", None, layer(kind="swa"), prefill(10)) == Cost(10 * (584 + 1024))
    assert cost("combine", None, layer(), prefill(4096, start=4096)).bytes == 4096 * 4 * (512 + 640)
    assert cost("combine", None, layer(), prefill(1024)).bytes == 1024 * 4 * 640
    assert cost("combine", None, layer(kind="hca"), prefill(1024)).bytes == 1024 * 4 * 256


def test_cover_writes_the_width_of_the_longest_request():
    ragged = Lengths(np.array([1279, 127]), np.array([1, 1]))
    assert cost("cover", None, layer(kind="hca"), ragged) == Cost(2 * 10 * 4)


def test_batches_add_up():
    one, many = (cost("attend", None, layer(), decode(count, 1024)) for count in (1, 64))
    assert (many.bytes, many.flops) == (64 * one.bytes, 64 * one.flops)
