"""What a result depends on besides chance: machine, software and configuration, under flat names."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.results.folder.provenance import Provenance

LABELS = ("name", "output_dir", "track")  # of the configuration: they change nothing
LATER = {"streams": "1"}  # fields that came later, where they say what was so before
ABSENT = "-"
UNKNOWN_CHANGES = "uncommitted changes that were not recorded"

Parts = dict[str, str]


@dataclass(frozen=True)
class Difference:
    part: str
    one: str
    other: str


def fingerprint(config: Mapping[str, Any], provenance: Provenance) -> Parts:
    """`config`: the resolved one as a tree, of any version of this project."""
    gpu = provenance.gpu
    found = {
        "machine.gpu": gpu.name if gpu else ABSENT,
        "machine.driver": (gpu.driver if gpu else None) or ABSENT,
        "machine.cpu": provenance.cpu,
        "machine.cores": str(provenance.cores),
        "software.system": provenance.platform,
        "software.python": provenance.python,
        **{f"software.{name}": version or ABSENT for name, version in provenance.packages.items()},
        "code.commit": provenance.git_commit or ABSENT,
        "code.changes": _changes(provenance),
    }
    flat = _flat({name: value for name, value in config.items() if name not in LABELS})
    return found | {name: value for name, value in flat if LATER.get(name.rpartition(".")[2]) != value}


def digest(parts: Mapping[str, str], declared: Iterable[str] = ()) -> str:
    """Equal where all parts but the declared ones are."""
    kept = {name: value for name, value in sorted(parts.items()) if not within(name, declared)}
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()[:12]


def differences(one: Parts, other: Parts, declared: Iterable[str] = ()) -> list[Difference]:
    """Parts beyond the declared ones that are not known to be the same."""
    found = []
    for name in dict.fromkeys([*one, *other]):
        values = one.get(name, ABSENT), other.get(name, ABSENT)
        if not within(name, declared) and (values[0] != values[1] or UNKNOWN_CHANGES in values):
            found.append(Difference(name, *values))
    return found


def within(name: str, parents: Iterable[str]) -> bool:
    """`machine` holds all of machine.gpu, machine.cpu and so on."""
    return any(name == parent or name.startswith(f"{parent}.") for parent in parents)


def _changes(provenance: Provenance) -> str:
    if not provenance.git_dirty:
        return ABSENT
    return provenance.git_changes or UNKNOWN_CHANGES


def _flat(tree: Any, name: str = "") -> Iterable[tuple[str, str]]:
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, tree if isinstance(tree, str) else json.dumps(tree)
