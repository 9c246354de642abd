"""Files that are either whole or not there."""

import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the place of `path` only when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{secrets.token_hex(4)}.{path.name}")
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """The same with a folder: where the block fails, `path` holds what it held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft, before = (path.with_name(f".{secrets.token_hex(4)}.{path.name}") for _ in range(2))
    draft.mkdir()
    try:
        yield draft
        if path.exists():
            path.rename(before)
        try:
            draft.rename(path)
        except OSError:
            if before.exists():
                before.rename(path)
            raise
        shutil.rmtree(before, ignore_errors=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(finite(value), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def finite(value: Any) -> Any:
    """The same tree with null where a number is NaN or infinite: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
