"""A trace of requests as a CSV file: TIMESTAMP, ContextTokens, GeneratedTokens."""

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from pipeline.fields import MAX_TOKENS
from pipeline.schema import ConfigError

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?", re.ASCII)
WHOLE = re.compile(r"0|[1-9]\d{0,9}", re.ASCII)


@dataclass(frozen=True, eq=False)
class Trace:
    prompts: np.ndarray  # int [request]
    generated: np.ndarray  # int [request]


def read_trace(path: str | Path) -> Trace:
    """A byte-order mark and CRLF are fine. ConfigError with file, line, column and value on anything else."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from error
    if lines[-1] == "":
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    if not lines:
        raise ConfigError([f"{path}: is empty; the first line is {','.join(COLUMNS)}"])
    if tuple(lines[0].split(",")) != COLUMNS:
        raise ConfigError([f"{path}, line 1: the columns are {lines[0][:80]!r}; must be {','.join(COLUMNS)}"])
    if len(lines) == 1:
        raise ConfigError([f"{path}: has no requests, only the line with the columns"])
    rows, last = [], ""
    for number, line in enumerate(lines[1:], 2):
        row = _row(f"{path}, line {number}", line, last)
        last = row[0]
        rows.append(row[1:])
    found = np.array(rows)
    return Trace(found[:, 0], found[:, 1])


def _row(where: str, line: str, last: str) -> tuple[str, int, int]:
    cells = line.split(",")
    if len(cells) != len(COLUMNS):
        raise ConfigError([f"{where}: {line[:80]!r} has {len(cells)} cells; must have {len(COLUMNS)}, as line 1"])
    time, prompt, generated = cells
    if not _is_time(time):
        raise ConfigError([f"{where}, TIMESTAMP={time[:80]!r}: must be a time such as 2023-11-16 18:17:03.97996"])
    if _padded(time) < _padded(last):
        raise ConfigError([f"{where}, TIMESTAMP={time}: is before the request above it, {last}; sort the requests"])
    return time, _count(f"{where}, ContextTokens", prompt, 1), _count(f"{where}, GeneratedTokens", generated, 0)


def _padded(time: str) -> str:
    """Ordered as text: the digits of an instant stand in the order of their weight."""
    second, _, fraction = time.partition(".")
    return f"{second}.{fraction:0<9}"


def _is_time(text: str) -> bool:
    if not TIMESTAMP.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return False
    return True


def _count(where: str, text: str, least: int) -> int:
    if not (WHOLE.fullmatch(text) and least <= int(text) <= MAX_TOKENS):
        raise ConfigError([f"{where}={text[:80]!r}: must be a whole number from {least} to {MAX_TOKENS}"])
    return int(text)
