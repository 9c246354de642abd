"""The caches of one layer, and what is put into them for tokens that count as computed before the run."""

from collections.abc import Sequence

import torch

from kernels.layouts import Cache, FP8DSMLACache, FP8IndexCache, PlainCache, tickets_for
from pipeline.engine.layer import LayerCaches
from pipeline.engine.pages import PagePool
from pipeline.engine.plan import Prefix
from pipeline.engine.weights import overlap
from pipeline.schema import Engine, Kind, Model

ELEMENTS_AT_ONCE = 1 << 25


def layer_caches(
    model: Model, engine: Engine, kind: Kind, pools: dict[str, PagePool], dtype: torch.dtype, device: torch.device
) -> LayerCaches:
    """Caches with a row for every page of the pools, the null page included."""

    def rows(space: str) -> tuple[int, int]:
        return pools[space].capacity + 1, pools[space].space.page_size

    def keys(space: str) -> Cache:
        if engine.kv_layout == "fp8_ds_mla":
            return FP8DSMLACache.empty(*rows(space), model.head_dim - model.rope_dim, model.rope_dim, device)
        return PlainCache.empty(*rows(space), model.head_dim, dtype, device)

    def index() -> Cache:
        if engine.index_layout == "fp8":
            return FP8IndexCache.empty(*rows("csa.entries"), model.index_dim, device)
        return PlainCache.empty(*rows("csa.entries"), model.index_dim, dtype, device)

    def state(width: int) -> PlainCache:
        return PlainCache.empty(*rows(f"{kind}.state"), 2 * overlap(kind) * width, torch.float32, device)

    if kind == "swa":
        return LayerCaches(keys("window"))
    main, entries = keys(f"{kind}.entries"), index() if kind == "csa" else None
    return LayerCaches(
        window=keys("window"),
        main=main,
        main_state=state(model.head_dim),
        main_tickets=tickets_for(main),
        index=entries,
        index_state=state(model.index_dim) if kind == "csa" else None,
        index_tickets=tickets_for(entries) if kind == "csa" else None,
    )


def fill_prefixes(caches: LayerCaches, kind: Kind, prefixes: Sequence[Prefix], seed: int) -> None:
    """Write what the earlier tokens of requests would have left: unit-size rows, as the norms before the caches give.

    The same seed writes the same rows for the same prefixes, wherever the pages lie.
    """
    device = caches.window.data.device
    generator = torch.Generator(device).manual_seed(seed)
    members = {"window": [caches.window]}
    if kind != "swa":
        members[f"{kind}.entries"] = [caches.main, caches.index]
        members[f"{kind}.state"] = [caches.main_state, caches.index_state]
    for space, held in members.items():
        slots = torch.cat([prefix.slots[space] for prefix in prefixes])
        for cache in held:
            for some in slots.split(ELEMENTS_AT_ONCE // cache.width) if cache is not None else ():
                cache.insert(some, torch.randn(len(some), cache.width, generator=generator, device=device))
