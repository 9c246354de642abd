"""Which stream is the second, and that it is joined whatever happens; what runs there is tested on a GPU."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from pipeline.engine import streams
from pipeline.engine.streams import Beside

DEVICE = torch.device("cpu")


@pytest.fixture
def said(monkeypatch) -> list[str]:
    """What streams do, in order. The current one is `first`."""
    found: list[str] = []

    def stream(name: str) -> SimpleNamespace:
        return SimpleNamespace(
            name=name,
            device=DEVICE,
            record_event=lambda: f"mark of {name}",
            wait_event=lambda mark: found.append(f"{name} waits for {mark}"),
            wait_stream=lambda other: found.append(f"{name} joins {other.name}"),
        )

    first, second = stream("first"), stream("second")
    monkeypatch.setattr(streams, "_streams", lambda _: (first, second))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: first)
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    return found


def test_the_second_stream_is_not_the_current_one(said):
    beside = Beside.of(DEVICE, 2)
    with beside.after(beside.mark()):
        said.append("launched")
    beside.join()
    assert said == ["second waits for mark of first", "launched", "first joins second"]


def test_a_stage_that_raises_beside_is_joined_too(said):
    beside = Beside.of(DEVICE, 2)
    with pytest.raises(ValueError, match="no luck"), beside.after(beside.mark()):
        raise ValueError("no luck")
    assert said == ["second waits for mark of first", "first joins second"]


def test_one_stream_is_simply_in_order(said):
    beside = Beside.of(DEVICE, 1)
    assert beside.mark() is None
    with beside.after(None):
        said.append("launched")
    beside.join()
    assert said == ["launched"]
