"""The steps of a case laid out in memory: pages given out and taken back, once for all arms."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pipeline.engine.batch import Part, StepInputs, step_inputs
from pipeline.engine.pages import PagePool, Space
from pipeline.work.schedule import Step
from pipeline.work.workload import Request

Pools = dict[str, PagePool]


@dataclass(frozen=True)
class Prefix:
    """What a request that joins has in the caches already: space -> int64 slots of the rows that are still read."""

    request: int
    slots: dict[str, torch.Tensor]


@dataclass(frozen=True)
class Plan:
    inputs: tuple[StepInputs, ...]  # one a step
    prefixes: tuple[tuple[Prefix, ...], ...]  # one tuple a step: who joins in it
    pools: Pools
    reuses_pages: bool  # pages change hands, so prefixes must be written anew in every round


def plan(
    requests: Sequence[Request],
    steps: Sequence[Step],
    spaces: dict[str, Space],
    window: int,
    seed: int,
    device: torch.device,
) -> Plan:
    counting = {name: PagePool(space) for name, space in spaces.items()}
    for step in steps:
        _advance(counting, requests, step)
        _retire(counting, requests, step)
    pools = {name: PagePool(spaces[name], pool.high_water, seed, pool.widest) for name, pool in counting.items()}
    inputs, prefixes = [], []
    for step in steps:
        joining = _advance(pools, requests, step)
        prefixes.append(tuple(_prefix(pools, request, requests[request].cached_len, device) for request in joining))
        parts = [Part(chunk.request, chunk.start, chunk.tokens) for chunk in step.chunks]
        inputs.append(step_inputs(parts, pools, window, device))
        _retire(pools, requests, step)
    reuses = any(pool.taken > pool.capacity for pool in pools.values())
    return Plan(tuple(inputs), tuple(prefixes), pools, reuses)


def _advance(pools: Pools, requests: Sequence[Request], step: Step) -> list[int]:
    """Give pages to every request of the step; returns those that join with a cached prefix."""
    joining = []
    for chunk in step.chunks:
        cached = requests[chunk.request].cached_len
        if cached and chunk.start == cached:
            joining.append(chunk.request)
        for pool in pools.values():
            pool.extend(chunk.request, chunk.start, chunk.start + chunk.tokens)
    return joining


def _retire(pools: Pools, requests: Sequence[Request], step: Step) -> None:
    for chunk in step.chunks:
        request = requests[chunk.request]
        if chunk.start + chunk.tokens == request.prompt_len + request.output_len - 1:
            for pool in pools.values():
                pool.drop(chunk.request)


def _prefix(pools: Pools, request: int, tokens: int, device: torch.device) -> Prefix:
    slots = {}
    for name, pool in pools.items():
        page_size = pool.space.page_size
        rows = torch.arange(pool.space.first_live_row(tokens), pool.space.rows(tokens))
        table = torch.from_numpy(pool.block_table([request])[0]).long()
        slots[name] = (table[rows // page_size] * page_size + rows % page_size).to(device)
    return Prefix(request, slots)
