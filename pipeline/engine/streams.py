"""A second stream of the device: what two stages do not wait for each other for runs side by side."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch


@dataclass(frozen=True)
class Beside:
    """Launches beside the current stream, or, where there is no second stream, simply in order.

    Tensors that go from one stream to the other are kept by the caller until `join`.
    """

    stream: torch.cuda.Stream | None

    @classmethod
    def of(cls, device: torch.device, streams: int) -> "Beside":
        return cls(_second(device) if streams > 1 else None)

    def mark(self) -> torch.cuda.Event | None:
        """What has been launched so far."""
        return self.stream and torch.cuda.current_stream(self.stream.device).record_event()

    @contextmanager
    def after(self, mark: torch.cuda.Event | None) -> Iterator[None]:
        """What is launched within waits for what the mark saw, and for what was launched beside before."""
        if self.stream is None:
            yield
            return
        self.stream.wait_event(mark)
        with torch.cuda.stream(self.stream):
            yield

    def join(self) -> None:
        """What is launched from here on waits for what was launched beside."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)


@cache
def _second(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
