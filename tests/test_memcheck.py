"""What `make memcheck` says, with a checker that is a script: it answers by tool and by what it is asked to watch."""

from pathlib import Path

import pytest

from tests.gpu import memcheck

FINDS_WHAT_IS_PLANTED = 'case "$*" in *reads_*|*writes_*) exit 99;; '


@pytest.fixture
def checker(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(memcheck, "CUDA_HOME", Path("/nowhere"))

    def written(script: str) -> None:
        file = tmp_path / "compute-sanitizer"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    return written


def test_without_a_checker_there_is_one_line(checker, capsys):
    assert memcheck.main([]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and "compute-sanitizer is neither on the PATH nor" in said.err and not said.out


def test_a_checker_that_finds_no_planted_fault_is_not_believed(checker, capsys):
    checker("exit 0")
    assert memcheck.main([]) == 1
    assert "memcheck does not find reads_past_the_end, a planted fault" in capsys.readouterr().err
    checker("echo 'Device not supported'; exit 1")
    assert memcheck.main([]) == 2


def test_every_tool_and_group_is_told(checker, capsys):
    checker(f"{FINDS_WHAT_IS_PLANTED} esac")
    assert memcheck.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [(line.split()[0], line.split()[1], line.split()[-1]) for line in lines[1:]]
    assert told == [(tool, group, "ok") for tool, groups in memcheck.TOOLS.items() for group in groups]
    assert memcheck.main(["racecheck"]) == 0
    assert "memcheck  " not in capsys.readouterr().out


def test_an_error_that_is_found_fails_and_is_shown(checker, capsys):
    checker(f"{FINDS_WHAT_IS_PLANTED} *initcheck*topk) echo Uninitialized read at 0x7f; exit 99;; esac")
    assert memcheck.main([]) == 1
    said = capsys.readouterr()
    [line] = [line for line in said.out.splitlines() if "FAILED" in line]
    assert line.startswith("initcheck  topk") and line.endswith("FAILED (99)")
    assert "Uninitialized read at 0x7f" in said.err


def test_what_is_planted_and_checked_exists():
    cases = (Path(memcheck.__file__).parent / "memcheck_cases.py").read_text()
    assert all(f"def {name}()" in cases for name in (*memcheck.GROUPS, *memcheck.PLANTED))
