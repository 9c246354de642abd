"""A stage that is to be timed alone, and that no arm calls in any case."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from kernels.contracts import Batch, Rows, Shortcut
from pipeline.door.variants import build
from pipeline.schema import ConfigError, Engine, Model, Variant
from pipeline.work.schedule import Step, schedule
from pipeline.work.workload import Case

REMEDIES = {
    ("gather", "combine"): "every step decodes; give a workload with prompts, such as +workload@workloads.NAME="
    "prefill_ladder",
    ("cover", "locate", "select"): "every step has prompts, and every arm gathers what those attend; give a workload "
    "that decodes, or an arm with prefill=null",
    ("score", "topk"): "every arm skips it at these contexts; give longer ones, or an arm that scores every row, such "
    "as +variant@arms.NAME=never",
}


def uncalled(
    scope: str, model: Model, engine: Engine, arms: Mapping[str, Variant], cases: Iterable[Case]
) -> Iterator[str]:
    """A line, or none. The arms can be built, and have the stage."""
    why = next((remedy for scopes, remedy in REMEDIES.items() if scope in scopes), None)
    if why is None or not arms:
        return
    limits = engine.max_num_seqs, engine.max_num_batched_tokens, engine.chunked_prefill
    steps = [step for case in cases for step in schedule(case.requests, *limits)]
    try:
        called = any(_calls(scope, name, variant, steps, model) for name, variant in arms.items())
    except ConfigError:
        return  # told by others
    if not called:
        yield f"measure.scope={scope}: no arm calls this stage in any case: {why}"


def _calls(scope: str, name: str, variant: Variant, steps: Sequence[Step], model: Model) -> bool:
    if scope in ("score", "topk"):
        shortcut = build(variant.select.shortcut, f"arms.{name}.select.shortcut")
        return any(not _skips(shortcut, step, model) for step in steps)
    wanted = scope in ("gather", "combine")
    return any(wanted == bool(variant.prefill and step.tokens > len(step.chunks)) for step in steps)


def _skips(shortcut: Shortcut, step: Step, model: Model) -> bool:
    """What raises here is left to the run."""
    try:
        return shortcut(_batch(step), model.compress_ratio, model.topk).skips_all
    except Exception:
        return False


def _batch(step: Step) -> Batch:
    def tensor(values: Any) -> torch.Tensor:
        return torch.from_numpy(np.asarray(values, np.int32))

    counts = [chunk.tokens for chunk in step.chunks]
    positions = np.concatenate([np.arange(chunk.start, chunk.start + chunk.tokens) for chunk in step.chunks])
    request = np.repeat(np.arange(len(counts)), counts)
    rows = Rows(tensor(positions), tensor(request), torch.ones(len(positions), dtype=torch.bool))
    lengths = [chunk.start + chunk.tokens for chunk in step.chunks]
    return Batch(rows, tensor(np.cumsum([0, *counts])), tensor(lengths), step.max_seq_len)
