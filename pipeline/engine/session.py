"""One layer to be fed by hand: any split of prompts into chunks and decode steps, any mix of requests.

For people who debug a kernel: hidden states in, outputs and the selected entries out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor

from pipeline.engine import checkpoint, weights
from pipeline.engine.batch import Part, StepInputs, entries_of, step_inputs
from pipeline.engine.caches import layer_caches
from pipeline.engine.layer import Layer, LayerOutput, Stages
from pipeline.engine.pages import PagePool, spaces
from pipeline.engine.stack import DTYPES, rope_tables
from pipeline.fields import MAX_TOKENS
from pipeline.schema import Engine, Kind, Model


@dataclass(frozen=True)
class Fed:
    """What one request got back from a step of n tokens."""

    output: Tensor  # [n, hidden]
    selected: Tensor | None  # int64 [n, K] entry numbers, -1 at the tail; None in a swa layer


class LayerSession:
    """One layer of `kind` on `tensors` (checkpoint names, full size; names and shapes: `checkpoint.shapes`).

    Caches hold up to max_requests sequences of max_tokens tokens. ConfigError names missing or misshapen tensors,
    ValueError a limit that cannot be.
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
        if not 1 <= max_tokens <= MAX_TOKENS or max_requests < 1:
            raise ValueError(
                f"max_tokens={max_tokens}, max_requests={max_requests}: max_tokens must be from 1 to {MAX_TOKENS}, "
                "max_requests at least 1"
            )
        device, dtype = torch.device(engine.device), DTYPES[engine.dtype]
        held = weights.assemble(checkpoint.shard(tensors, model, kind, engine.tp), model, dtype, device)
        held = weights.prepared(held, stages.project)
        self.layer = Layer(kind, model, held, rope_tables(model, {kind}, max_tokens, device)[kind], stages)
        self.max_tokens, self.max_requests = max_tokens, max_requests
        self.pools = {
            name: PagePool(
                space,
                max_requests * (space.rows(max_tokens) // space.page_size + 1),
                columns=max(1, space.columns(max_tokens)),
            )
            for name, space in spaces(model, engine, {kind}).items()
        }
        self.caches = layer_caches(model, engine, kind, self.pools, dtype, device)
        self.lengths: dict[str, int] = {}  # tokens that each request has been through
        self._numbers: dict[str, int] = {}

    def feed(self, hidden: Mapping[str, Tensor], padding: int = 0) -> dict[str, Fed]:
        """One step: hidden [n, hidden size] of each request that takes part; a new name is a new request.

        `padding` adds inert rows. ValueError where the input is no such thing, a sequence would pass max_tokens, there
        would be more than max_requests, or the caches are full: then nothing has changed. A step that a kernel breaks
        off does not count, and can be fed again.
        """
        faults = list(self._faults(hidden, padding))
        if faults:
            raise ValueError("\n".join(faults))
        parts = self._admit(hidden)
        x = torch.cat(
            [states.to(self.layer.weights.o_a.device, self.layer.weights.o_a.dtype) for states in hidden.values()]
        )
        inputs = step_inputs(parts, self.pools, self.layer.model.window, x.device, padding)
        output = self.layer(torch.cat([x, x.new_full((padding, x.shape[1]), torch.nan)]), inputs, self.caches)
        for name, states in hidden.items():
            self.lengths[name] += len(states)
        return self._split(hidden, output, inputs)

    def drop(self, name: str) -> None:
        """Forget a request and give its pages back. ValueError where there is none of that name."""
        if name not in self.lengths:
            held = ", ".join(map(repr, self.lengths)) or "none"
            raise ValueError(f"drop: there is no request {name!r}; held are: {held}")
        for pool in self.pools.values():
            pool.drop(self._numbers[name])
        del self._numbers[name], self.lengths[name]

    def _faults(self, hidden: Mapping[str, Tensor], padding: int) -> Iterator[str]:
        if not hidden:
            yield "feed: no request; give the hidden states of at least one"
        if not isinstance(padding, int) or padding < 0:
            yield f"feed: padding={padding}: must be a whole number of rows, 0 or more"
        for name, states in hidden.items():
            width, done = self.layer.model.hidden, self.lengths.get(name, 0)
            if not _are_hidden_states(states, width):
                yield (
                    f"feed: request {name!r}: got {_described(states)}; give a tensor of floating point numbers "
                    f"[n, {width}] with n >= 1"
                )
            elif done + len(states) > self.max_tokens:
                yield (
                    f"feed: request {name!r}: {done} + {len(states)} tokens pass max_tokens={self.max_tokens}; "
                    "feed fewer, or open the layer with more"
                )
        new = sum(name not in self.lengths for name in hidden)
        if len(self.lengths) + new > self.max_requests:
            yield (
                f"feed: {len(self.lengths)} requests are held and {new} are new, more than "
                f"max_requests={self.max_requests}; drop some, or open the layer with more"
            )

    def _admit(self, hidden: Mapping[str, Tensor]) -> list[Part]:
        """Pages for all of them, or for none."""
        unused = count(max(self._numbers.values(), default=-1) + 1)
        numbers = {name: self._numbers[name] if name in self.lengths else next(unused) for name in hidden}
        parts = [Part(numbers[name], self.lengths.get(name, 0), len(states)) for name, states in hidden.items()]
        growth = [(part.request, part.start, part.start + part.tokens) for part in parts]
        for pool in self.pools.values():
            pool.require(growth)
        for pool in self.pools.values():
            for each in growth:
                pool.extend(*each)
        self._numbers |= numbers
        self.lengths = dict.fromkeys(hidden, 0) | self.lengths
        return parts

    def _split(self, hidden: Mapping[str, Tensor], output: LayerOutput, inputs: StepInputs) -> dict[str, Fed]:
        sizes = [len(states) for states in hidden.values()]
        y = output.y[: inputs.tokens].split(sizes)
        if output.selection is None:
            return {name: Fed(part, None) for name, part in zip(hidden, y, strict=True)}
        pages = inputs.pages[f"{self.layer.kind}.entries"]
        entries = entries_of(output.selection.slots, inputs.batch.rows, pages)[: inputs.tokens].split(sizes)
        return {name: Fed(*parts) for name, *parts in zip(hidden, y, entries, strict=True)}


def _are_hidden_states(states: Any, width: int) -> bool:
    if not (isinstance(states, Tensor) and states.is_floating_point() and states.ndim == 2):
        return False
    return len(states) > 0 and states.shape[1] == width


def _described(states: Any) -> str:
    return f"{states.dtype} {list(states.shape)}" if isinstance(states, Tensor) else f"a {type(states).__name__}"
