"""All arms read the same weights, ropes and inputs: one that writes to them is found, and what it wrote is undone."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from pipeline.engine.arms.arm import StackArm
from pipeline.engine.arms.bench import given
from pipeline.engine.plan import Plan
from pipeline.engine.stack import Blueprint, blueprint
from pipeline.evidence.timing.modes import Trial

NAMED = 3
SMALL = 1 << 20  # bytes: below that many tensors are summed as one
CHUNK = 1 << 22  # words of 8 bytes
ODD = 0x1E3779B97F4A7C15


class Shared:
    """That of a case. Sums of its bits tell that somebody wrote, also where a kernel did that torch does not know."""

    def __init__(self, trial: Trial, stack: Blueprint, arm: StackArm):
        self.trial, self.stack = trial, stack
        self._tensors = _tensors(stack, arm.plan, arm.hidden)
        self._sums = _sums(list(self._tensors.values()))

    def written(self) -> str:
        """What was written to since it was made, or nothing; it is made again as it was."""
        if _sums(list(self._tensors.values())) == self._sums:
            return ""
        right, names = self._made_again(), []
        for name, tensor in self._tensors.items():
            if not torch.equal(_bytes(tensor), _bytes(right[name])):
                names.append(name)
                tensor.copy_(right[name])
        more = len(names) - NAMED
        return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")

    def _made_again(self) -> dict[str, Tensor]:
        trial, length = self.trial, max(len(rope.cos) for rope in self.stack.ropes.values())
        stack = blueprint(trial.config, length)
        return _tensors(stack, *given(trial.config, trial.case, trial.steps, stack))


def _tensors(stack: Blueprint, plan: Plan, hidden: Sequence[Tensor]) -> dict[str, Tensor]:
    groups = [
        *((f"layer {number}", held) for number, held in zip(stack.numbers, stack.weights, strict=True)),
        *((f"the {kind} rope", rope) for kind, rope in stack.ropes.items()),
        *((f"step {step}", inputs) for step, inputs in enumerate(plan.inputs)),
        *((f"the prefixes of step {step}", joining) for step, joining in enumerate(plan.prefixes)),
    ]
    found = {f"{path} of {group}": tensor for group, value in groups for path, tensor in _within(value)}
    block = hidden[0].new_empty(0).set_(hidden[0].untyped_storage())
    return found | {"the block of the hidden states": block}


def _within(value: Any, *path: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield ".".join(path), value
    for name, item in _items(value):
        yield from _within(item, *path, str(name))


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if is_dataclass(value):
        return ((item.name, getattr(value, item.name)) for item in fields(value))
    if isinstance(value, dict):
        return iter(value.items())
    return enumerate(value) if isinstance(value, tuple) else iter(())


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.flatten().view(torch.uint8)


def _sums(tensors: Sequence[Tensor]) -> list[int]:
    """All on the device first, so that it is waited for once."""
    device = tensors[0].device
    data = [_bytes(tensor).to(device) for tensor in tensors]
    small = [one for one in data if len(one) < SMALL]
    large = [one for one in data if len(one) >= SMALL]
    factors = _factors(min(CHUNK, sum(map(len, data))), device)
    return torch.stack([_sum(one, factors) for one in (torch.cat(small), *large)]).tolist()


def _factors(count: int, device: torch.device) -> Tensor:
    """Odd, so that no change of a single word is lost."""
    mixed = torch.arange(1, count + 1, device=device) * ODD
    return (mixed ^ (mixed >> 29)) * ODD | 1


def _sum(data: Tensor, factors: Tensor) -> Tensor:
    """Modulo 2^64, each word by its place. Words are mixed first: an even number of signs that change, each the highest
    bit of its word, would add up to nothing.
    """
    if len(data) % 8 or data.storage_offset() % 8:
        data = torch.nn.functional.pad(data, (0, -len(data) % 8))
    total = factors.new_zeros(())
    for words in data.view(torch.int64).split(len(factors)):
        mixed = words >> 17
        mixed ^= words
        mixed *= factors[: len(words)]
        total = total * ODD + mixed.sum()
    return total
