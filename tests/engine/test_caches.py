import pytest
import torch

from pipeline.engine.arms.replay import Recorder
from pipeline.engine.caches import fill_prefixes, layer_caches
from pipeline.engine.pages import spaces
from pipeline.engine.plan import plan
from pipeline.work.schedule import schedule
from tests.compose import config
from tests.engine.layers import CPU, caches_of, poison
from tests.engine.runnable import arm_on, asked, with_stage

CACHED = 45


def filled(kind: str, engine: str, pages: int, seed: int = 5):
    """Caches with one prefix, in pages that depend on the seed `pages`; where its rows lie, by cache."""
    made = config(
        *("+exp=short_ctx", "model=tiny", f"engine={engine}", "engine.dtype=fp32", "engine.device=cpu"),
        *("engine.window_page=4", "engine.block_size=16"),
    )
    model = made.model
    requests = [asked(CACHED, CACHED + 1), asked(0, 30)]
    needed = spaces(model, made.engine, {kind})
    laid = plan(requests, schedule(requests, 4, 64, True), needed, model.window, pages, CPU)
    caches = layer_caches(model, made.engine, kind, laid.pools, torch.float32, CPU)
    poison(caches)
    [prefix] = laid.prefixes[0]
    fill_prefixes(caches, kind, [prefix], seed)
    spaces_of = {"window": "window", "main": f"{kind}.entries", "index": f"{kind}.entries"}
    slots = {name: prefix.slots[spaces_of.get(name, f"{kind}.state")] for name, _ in caches_of(caches)}
    return model, caches, slots


@pytest.mark.parametrize("engine", ["plain", "default"])
@pytest.mark.parametrize("kind", ["swa", "csa", "hca"])
def test_the_same_rows_wherever_the_pages_lie(kind, engine):
    (_, one, here), (_, other, there) = (filled(kind, engine, pages) for pages in (0, 1))
    assert any(here[name].tolist() != there[name].tolist() for name in here)
    for (name, first), (_, second) in zip(caches_of(one), caches_of(other), strict=True):
        rows = first.gather(here[name])
        assert torch.equal(rows, second.gather(there[name]))
        assert 0.8 < float(rows.square().mean().sqrt()) < 1.2
        assert len(rows.unique(dim=0)) == len(rows)


@pytest.mark.parametrize("engine", ["plain", "default"])
@pytest.mark.parametrize("kind", ["swa", "csa", "hca"])
def test_only_rows_that_are_still_read(kind, engine):
    model, caches, _ = filled(kind, engine, 0)
    ratio = model.ratio(kind)
    windows = {"csa": 2, "hca": 1, "swa": 0}[kind]
    alive = {"window": model.window - 1, "main": CACHED // max(1, ratio), "main_state": windows * ratio - 1}
    for name, cache in caches_of(caches):
        rows = cache.gather(torch.arange(cache.data.shape[0] * cache.page_size))
        written = ~rows.isnan().any(1)
        assert int(written.sum()) == alive[name.replace("index", "main")]
        assert not written[: cache.page_size].any(), "the null page"
        assert rows[~written].isnan().all()


def test_another_seed_gives_other_rows():
    (_, one, slots), (_, other, _) = (filled("csa", "plain", 0, seed) for seed in (5, 6))
    for (name, first), (_, second) in zip(caches_of(one), caches_of(other), strict=True):
        assert not torch.equal(first.gather(slots[name]), second.gather(slots[name]))


def test_every_compressor_has_tickets_of_its_own_for_the_entries_it_makes():
    arm, recorders = arm_on([asked(0, 9)], "engine.layers=4"), []
    with_stage(arm, "compress", lambda stage: recorders.append(Recorder(stage)) or recorders[0]).step(0)
    streams = [stream for call in recorders[0].calls for stream in call[0]]
    assert len(streams) == sum({"swa": 0, "hca": 1, "csa": 2}[kind] for kind in arm.blueprint.kinds) > 2
    for stream in streams:
        assert stream.tickets.tolist() == [0] * len(stream.cache.data) * stream.cache.page_size
    assert len({stream.tickets.data_ptr() for stream in streams}) == len(streams)
    held = [tickets for caches in arm.caches for tickets in (caches.main_tickets, caches.index_tickets)]
    assert [id(stream.tickets) for stream in streams] == [id(tickets) for tickets in held if tickets is not None]
