import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.results.folder.files import write_json
from pipeline.results.folder.status import close_dead, closing, process_start, read_status, write_status
from pipeline.schema import ConfigError


def test_finished(tmp_path):
    write_status(tmp_path, "running")
    with closing(tmp_path):
        assert read_status(tmp_path) == "running"
    assert read_status(tmp_path) == "finished"


def test_what_the_block_wrote_stays(tmp_path):
    write_status(tmp_path, "running")
    with closing(tmp_path):
        write_status(tmp_path, "failed", "an arm failed its check")
    assert read_status(tmp_path) == "failed"


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("boom"), "failed"), (SystemExit(1), "failed"), (KeyboardInterrupt(), "killed")],
)
def test_errors_are_told_and_go_on(error, status, tmp_path):
    write_status(tmp_path, "running")
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(type(error)), closing(tmp_path):
        raise error
    assert read_status(tmp_path) == status
    assert signal.getsignal(signal.SIGTERM) is before
    if status == "failed":
        assert json.loads((tmp_path / "status.json").read_text())["reason"] == f"{type(error).__name__}: {error}"


def test_what_is_told_after_work_was_done_is_no_bad_input(tmp_path):
    write_status(tmp_path, "running")
    with pytest.raises(RuntimeError, match="the file is gone") as told, closing(tmp_path):
        raise ConfigError(["the file is gone"])
    assert not isinstance(told.value, ConfigError)
    found = json.loads((tmp_path / "status.json").read_text())
    assert (found["status"], found["reason"]) == ("failed", "ConfigError: the file is gone")


PROGRAM = (
    "import sys, time; from pathlib import Path; from pipeline.results.folder.status import closing, write_status\n"
    "folder = Path(sys.argv[1]); write_status(folder, 'running')\n"
    "with closing(folder):\n"
    "    (folder / 'ready').touch(); time.sleep(60)\n"
)


def started(folder) -> subprocess.Popen:
    """A run in a process of its own, when it is under way."""
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)])
    deadline = time.monotonic() + 30
    while not (folder / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return process


def test_sigterm_is_killed_and_exits_143(tmp_path):
    process = started(tmp_path)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(timeout=20) == 143
    assert read_status(tmp_path) == "killed"


def test_sigkill_is_found_at_the_next_start(tmp_path):
    """Also before its parent has collected it."""
    run = tmp_path / "run"
    process = started(run)
    told = json.loads((run / "status.json").read_text())
    assert told["process"] == {"host": platform.node(), "pid": process.pid, "started": process_start(process.pid)}
    close_dead(tmp_path)
    assert read_status(run) == "running"
    process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while process_start(process.pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert read_status(run) == "running"
    close_dead(tmp_path)
    found = json.loads((run / "status.json").read_text())
    assert (found["status"], found["reason"]) == ("killed", "found dead later")
    assert found["process"] == told["process"]
    assert process.wait(timeout=20) == -signal.SIGKILL


def written(folder, status: str, **process) -> None:
    mine = {"host": platform.node(), "pid": os.getpid(), "started": process_start(os.getpid())}
    write_json(folder / "status.json", {"status": status, "reason": None, "utc": "then", "process": mine | process})


@pytest.mark.parametrize(
    ("status", "process", "expected"),
    [
        ("running", {}, "running"),
        ("running", {"started": 1}, "killed"),  # the number went to another process
        ("running", {"host": "elsewhere", "started": 1}, "running"),
        ("running", {"started": None}, "running"),
        ("finished", {"started": 1}, "finished"),
        ("failed", {"started": 1}, "failed"),
    ],
)
def test_only_what_is_surely_dead_is_closed(status, process, expected, tmp_path):
    written(tmp_path / "run", status, **process)
    close_dead(tmp_path)
    assert read_status(tmp_path / "run") == expected
    assert (json.loads((tmp_path / "run" / "status.json").read_text())["utc"] == "then") is (status == expected)


def test_a_status_without_its_process_is_left_alone(tmp_path):
    write_json(tmp_path / "run" / "status.json", {"status": "running", "reason": None, "utc": "then"})
    close_dead(tmp_path)
    close_dead(tmp_path / "absent")
    assert read_status(tmp_path / "run") == "running"


def test_process_start_counts_from_boot():
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    age = uptime - process_start(os.getpid()) / os.sysconf("SC_CLK_TCK")
    assert 0 < age < 24 * 3600
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert process_start(child.pid) is None
