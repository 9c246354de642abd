"""One layer to be fed by hand: any split of prompts into chunks and decode steps, any mix of requests.

For people who debug a kernel: hidden states in, outputs and the selected entries out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.engine import weights
from pipeline.engine.batch import Part, StepInputs, entries_of, step_inputs
from pipeline.engine.caches import layer_caches
from pipeline.engine.layer import Layer, LayerOutput, Stages
from pipeline.engine.pages import PagePool, spaces
from pipeline.engine.stack import DTYPES, rope_tables
from pipeline.schema import Engine, Kind, Model


@dataclass(frozen=True)
class Fed:
    """What one request got back from a step of n tokens."""

    output: Tensor  # [n, hidden]
    selected: Tensor | None  # int64 [n, K] entry numbers, -1 at the tail; None in a swa layer


class LayerSession:
    """One layer of `kind` on `tensors` (checkpoint names, full size; names and shapes: `weights.shapes`).

    Caches hold up to max_requests sequences of max_tokens tokens. ConfigError names missing or misshapen tensors.
    """

    def __init__(
        self,
        model: Model,
        engine: Engine,
        stages: Stages,
        kind: Kind,
        tensors: Mapping[str, Tensor],
        max_tokens: int = 4096,
        max_requests: int = 8,
    ):
        device, dtype = torch.device(engine.device), DTYPES[engine.dtype]
        held = weights.assemble(weights.shard(tensors, model, kind, engine.tp), model, dtype, device)
        self.layer = Layer(kind, model, held, rope_tables(model, {kind}, max_tokens, device)[kind], stages)
        self.max_tokens = max_tokens
        self.pools = {
            name: PagePool(space, max_requests * (space.rows(max_tokens) // space.page_size + 1))
            for name, space in spaces(model, engine, {kind}).items()
        }
        self.caches = layer_caches(model, engine, kind, self.pools, dtype, device)
        self.lengths: dict[str, int] = {}
        self._numbers: dict[str, int] = {}

    def feed(self, hidden: Mapping[str, Tensor], padding: int = 0) -> dict[str, Fed]:
        """One step: hidden [n, hidden size] of each request that takes part; a new name is a new request.

        `padding` adds inert rows. ValueError where a sequence would pass max_tokens or the caches are full.
        """
        parts = [self._admit(name, len(states)) for name, states in hidden.items()]
        x = torch.cat(
            [states.to(self.layer.weights.q.device, self.layer.weights.q.dtype) for states in hidden.values()]
        )
        inputs = step_inputs(parts, self.pools, self.layer.model.window, x.device, padding)
        output = self.layer(torch.cat([x, x.new_full((padding, x.shape[1]), torch.nan)]), inputs, self.caches)
        return self._split(hidden, output, inputs)

    def drop(self, name: str) -> None:
        """Forget a request and give its pages back."""
        for pool in self.pools.values():
            pool.drop(self._numbers[name])
        del self._numbers[name], self.lengths[name]

    def _admit(self, name: str, tokens: int) -> Part:
        start = self.lengths.get(name, 0)
        if start + tokens > self.max_tokens:
            raise ValueError(f"request {name}: {start} + {tokens} tokens pass max_tokens={self.max_tokens}")
        number = self._numbers.setdefault(name, max(self._numbers.values(), default=-1) + 1)
        for pool in self.pools.values():
            pool.extend(number, start, start + tokens)
        self.lengths[name] = start + tokens
        return Part(number, start, tokens)

    def _split(self, hidden: Mapping[str, Tensor], output: LayerOutput, inputs: StepInputs) -> dict[str, Fed]:
        sizes = [len(states) for states in hidden.values()]
        y = output.y[: inputs.tokens].split(sizes)
        if output.selection is None:
            return {name: Fed(part, None) for name, part in zip(hidden, y, strict=True)}
        pages = inputs.pages[f"{self.layer.kind}.entries"]
        entries = entries_of(output.selection.slots, inputs.batch.rows, pages)[: inputs.tokens].split(sizes)
        return {name: Fed(*parts) for name, *parts in zip(hidden, y, entries, strict=True)}
