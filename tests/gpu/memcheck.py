"""python -m tests.gpu.memcheck: the index kernels under compute-sanitizer, on inputs that invite a stray access.

First the checker must find faults that are planted for it. Every tensor is an allocation of its own, so that an access
past its end is none of another tensor. Exit code 1 where a tool reports an error, 2 where there is nothing to check
with.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CUDA_HOME = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
GROUPS = ("locate", "score", "topk", "prefill", "caches", "attend")
ERRORS, NOTHING_TO_CHECK_WITH = 1, 2
FOUND = 99  # what the checker exits with where it has errors to report
LINES = 40
SECONDS = 900
# planted fault -> the tool that must report it
PLANTED = {"reads_past_the_end": "memcheck", "writes_past_the_end": "memcheck", "reads_before_writing": "initcheck"}
TOOLS = {"memcheck": GROUPS, "initcheck": ("locate", "topk", "prefill"), "racecheck": ("locate", "score", "topk")}
OPTIONS = {"memcheck": ("--padding=32", "--report-api-errors=no")}  # torch asks what it knows to be refused


@dataclass(frozen=True)
class Finding:
    tool: str
    what: str
    code: int
    said: str
    seconds: float

    @property
    def unsupported(self) -> bool:
        return "Device not supported" in self.said


def main(asked: Sequence[str]) -> int:
    checker = shutil.which("compute-sanitizer") or shutil.which(CUDA_HOME / "bin" / "compute-sanitizer")
    if checker is None:
        print(
            "memcheck: compute-sanitizer is neither on the PATH nor in $CUDA_HOME/bin; it comes with the CUDA toolkit",
            file=sys.stderr,
        )
        return NOTHING_TO_CHECK_WITH
    with ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) // 2))) as pool:
        planted = list(pool.map(lambda pair: _run(checker, pair[1], pair[0]), PLANTED.items()))
        missed = [finding for finding in planted if finding.code != FOUND]
        if missed:
            print(f"memcheck: {missed[0].tool} does not find {missed[0].what}, a planted fault", file=sys.stderr)
            print(_end(missed[0].said), file=sys.stderr)
            return NOTHING_TO_CHECK_WITH if missed[0].unsupported else ERRORS
        print(f"the planted faults were found: {', '.join(PLANTED)}", flush=True)
        pairs = [(tool, group) for tool, groups in TOOLS.items() for group in groups if not asked or tool in asked]
        wrong = []
        for finding in pool.map(lambda pair: _run(checker, *pair), pairs):
            said = f"FAILED ({finding.code})" if finding.code else "ok"
            print(f"{finding.tool:10} {finding.what:8} {finding.seconds:4.0f} s  {said}", flush=True)
            wrong += [finding] if finding.code else []
    for finding in wrong:
        print(f"\n{finding.tool} {finding.what}:\n{_end(finding.said)}", file=sys.stderr)
    return ERRORS if wrong else 0


def _run(checker: str, tool: str, what: str) -> Finding:
    """A process of its own for each: an error ends what CUDA can do in it."""
    command = [checker, f"--tool={tool}", f"--error-exitcode={FOUND}", "--print-limit=3", *OPTIONS.get(tool, ())]
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": f"{ROOT}:{ROOT}/tests/kernels"}
    inputs = [sys.executable, "-m", "tests.gpu.memcheck_cases", what]
    start = time.monotonic()
    try:
        done = subprocess.run(
            [*command, *inputs],
            cwd=ROOT,
            env=environment,
            timeout=SECONDS,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired:
        return Finding(tool, what, ERRORS, f"not done within {SECONDS} s", SECONDS)
    return Finding(tool, what, done.returncode, done.stdout, time.monotonic() - start)


def _end(said: str) -> str:
    return "\n".join(said.splitlines()[-LINES:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
