"""Where and with what a run was made. No host name, no environment: nothing that identifies a person or a secret."""

import hashlib
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("torch", "triton", "hydra-core", "mlflow", "numpy", "scipy", "nvidia-ml-py")
LARGE = 1 << 24  # bytes of a file that nobody committed and that is not read for it


@dataclass(frozen=True)
class Gpu:
    name: str
    driver: str | None = None


@dataclass(frozen=True)
class Provenance:
    """`git_commit` and `git_dirty` are None when the project is not a checkout; a package that is absent is None."""

    command: str  # as typed; may be a whole sweep
    overrides: tuple[str, ...]  # of this job alone
    launch_directory: str
    git_commit: str | None
    git_dirty: bool | None
    python: str
    packages: dict[str, str | None]
    platform: str
    cpu: str
    cores: int
    gpu: Gpu | None
    utc: str  # ISO 8601, to the second
    git_changes: str | None = None  # digest of what is not committed; None where nothing is, or it is not known

    @property
    def device(self) -> str:
        return self.gpu.name if self.gpu else f"{self.cpu}, {self.cores} cores"

    @property
    def reproduce(self) -> str:
        """The command of this job alone."""
        return shlex.join(["python", "-m", "pipeline", *self.overrides]) if self.overrides else self.command


def capture(gpu: Gpu | None = None, overrides: Sequence[str] = (), launch_directory: Path | None = None) -> Provenance:
    """Of this process, now. `overrides`: those of this job, where the command is a sweep over several.

    `launch_directory`: where the user stood, if something changed directory since.
    """
    commit, dirty = _git(Path(__file__).resolve())
    return Provenance(
        command=_command(sys.orig_argv),
        overrides=tuple(overrides),
        launch_directory=str(launch_directory or Path.cwd()),
        git_commit=commit,
        git_dirty=dirty,
        python=platform.python_version(),
        packages={name: _version(name) for name in PACKAGES},
        platform=platform.platform(),
        cpu=_cpu_model(),
        cores=_usable_cores(),
        gpu=gpu,
        utc=datetime.now(UTC).isoformat(timespec="seconds"),
        git_changes=_uncommitted(Path(__file__).resolve().parent) if dirty else None,
    )


def _command(argv: list[str]) -> str:
    return shlex.join([Path(argv[0]).name, *argv[1:]])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(source: Path) -> tuple[str | None, bool | None]:
    """Commit and dirty flag of the checkout that tracks `source`; an installed copy inside a checkout is not one."""
    if _run_git(source.parent, "ls-files", "--error-unmatch", source.name) is None:
        return None, None
    commit = _run_git(source.parent, "rev-parse", "HEAD")
    status = _run_git(source.parent, "status", "--porcelain")
    return commit, None if status is None else bool(status)


def _uncommitted(inside: Path) -> str | None:
    """Equal where tracked files and new ones have the same content; of large new ones, the same size and time."""
    top = _run_git(inside, "rev-parse", "--show-toplevel")
    changed = top and _run_git(Path(top), "diff", "HEAD", "--binary", "--no-color", "--no-ext-diff")
    new = top and _run_git(Path(top), "ls-files", "--others", "--exclude-standard", "-z")
    if changed is None or new is None:
        return None
    found = hashlib.sha256(changed.encode())
    for name in sorted(filter(None, new.split("\0"))):
        found.update(f"\0{name}\0".encode(errors="replace") + _content(Path(top, name)))
    return found.hexdigest()[:12]


def _content(file: Path) -> bytes:
    try:
        told = file.stat()
        return file.read_bytes() if told.st_size <= LARGE else f"{told.st_size} {told.st_mtime_ns}".encode()
    except OSError:
        return b""


def _run_git(folder: Path, *arguments: str) -> str | None:
    foreign = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}  # set inside a hook, for another repository
    environment = {key: value for key, value in os.environ.items() if key not in foreign}
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
