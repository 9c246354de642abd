import json
import os
import signal
import subprocess
import sys
import time

import pytest

from pipeline.results.status import closing, read_status, write_status


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


def test_sigterm_is_killed_and_exits_143(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from pipeline.results.status import closing, write_status\n"
        "folder = Path(sys.argv[1]); write_status(folder, 'running')\n"
        "with closing(folder):\n"
        "    (folder / 'ready').touch(); time.sleep(30)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    deadline = time.monotonic() + 20
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(timeout=20) == 143
    assert read_status(tmp_path) == "killed"
