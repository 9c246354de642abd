"""How a run ended, in the folder: running, finished, failed or killed."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from pipeline.results.files import read_json, write_json


class Terminated(SystemExit):
    """SIGTERM, made an exception so that the run can say that it was killed."""


def write_status(folder: Path, status: str, reason: str | None = None) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(folder / "status.json", {"status": status, "reason": reason, "utc": now})


def read_status(folder: Path) -> str:
    return read_json(folder / "status.json")["status"]


@contextmanager
def closing(folder: Path) -> Iterator[None]:
    """The status follows from how the block ends, unless the block wrote one: finished; killed by Ctrl-C or SIGTERM;
    failed with the error. What was raised goes on."""
    try:
        with _sigterm_raises():
            yield
    except (KeyboardInterrupt, Terminated) as stop:
        write_status(folder, "killed", type(stop).__name__)
        raise
    except BaseException as error:
        write_status(folder, "failed", f"{type(error).__name__}: {error}")
        raise
    if read_status(folder) == "running":
        write_status(folder, "finished")


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(128 + number)
