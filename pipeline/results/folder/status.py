"""How a run ended, in the folder: running, finished, failed or killed."""

import os
import platform
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from pipeline.results.folder.files import read_json, write_json
from pipeline.schema import ConfigError

ENDED = ("finished", "failed")  # came to its end: a failed arm, bar or gate is in the report


class Terminated(SystemExit):
    """SIGTERM, made an exception so that the run can say that it was killed."""


def write_status(folder: Path, status: str, reason: str | None = None) -> None:
    """With the process that writes it: while a run is running, that is the one that would have to say otherwise."""
    pid = os.getpid()
    _write(folder, status, reason, {"host": platform.node(), "pid": pid, "started": process_start(pid)})


def read_status(folder: Path) -> str:
    return read_json(folder / "status.json")["status"]


def close_dead(study: Path) -> None:
    """Runs of the study that say they are running but whose process is gone, as after SIGKILL, were killed.

    Only runs of this machine, for of others nothing is known.
    """
    for file in sorted(study.glob("*/status.json")):
        close_if_dead(file.parent)


def close_if_dead(folder: Path) -> None:
    process = read_json(folder / "status.json").get("process")
    # a run that ended between these two looks has said how
    if _is_dead(process) and read_status(folder) == "running":
        _write(folder, "killed", "found dead later", process)


def process_start(pid: int) -> int | None:
    """Start of a living process, in clock ticks after boot: field 22 of /proc/PID/stat. None: dead, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _is_dead(process: dict[str, Any] | None) -> bool:
    if process is None or process["started"] is None or process["host"] != platform.node():
        return False
    return process_start(process["pid"]) != process["started"]


def _write(folder: Path, status: str, reason: str | None, process: dict[str, Any]) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(folder / "status.json", {"status": status, "reason": reason, "utc": now, "process": process})


@contextmanager
def closing(folder: Path) -> Iterator[None]:
    """The status follows from how the block ends, unless the block wrote one: finished; killed by Ctrl-C or SIGTERM;
    failed with the error. What was raised goes on; a ConfigError as RuntimeError, for what is told after work was done
    is no bad input."""
    try:
        with sigterm_raises():
            yield
    except (KeyboardInterrupt, Terminated) as stop:
        write_status(folder, "killed", type(stop).__name__)
        raise
    except BaseException as error:
        write_status(folder, "failed", f"{type(error).__name__}: {error}")
        if isinstance(error, ConfigError):
            raise RuntimeError(str(error)) from error
        raise
    if read_status(folder) == "running":
        write_status(folder, "finished")


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """Terminated, in the main thread; others are left alone."""
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
