"""A second stream of the device: what two stages do not wait for each other for runs side by side."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch


@dataclass(frozen=True)
class Beside:
    """Launches beside the current stream, or, where there is no second stream, simply in order.

    What the caller hands to the other stream it keeps until `join`. Memory that was made beside is used again beside,
    and so behind a later mark: after everything that the first stream had launched on it by then.
    """

    stream: torch.cuda.Stream | None

    @classmethod
    def of(cls, device: torch.device, streams: int) -> "Beside":
        if streams == 1:
            return cls(None)
        current = torch.cuda.current_stream(device)
        return cls(next(stream for stream in _streams(device) if stream != current))

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
        try:
            with torch.cuda.stream(self.stream):
                yield
        except BaseException:
            self.join()
            raise

    def join(self) -> None:
        """What is launched from here on waits for what was launched beside."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)


@cache
def _streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    """Two: torch hands streams out in turn, so one of them may be the current one."""
    return torch.cuda.Stream(device), torch.cuda.Stream(device)
