"""The composed YAML as plain data, with what the schema has against it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import TypeAdapter, ValidationError

from pipeline.door.words import Place, Schema, meant, nearest, shown
from pipeline.schema import Config

Location = tuple[str | int, ...]
LITERAL = re.compile(r"'([^']+)'")
GROUP_OF_ENTRIES = {"arms": "variant", "workloads": "workload"}


@dataclass(frozen=True)
class Draft:
    data: dict[str, Any]
    lines: list[str]  # one a fault
    bad: set[Location]

    def sound(self, kind: Any, *path: str) -> Any:
        """What stands at path, as `kind`; None if anything in it is bad."""
        if any(location[: len(path)] == path for location in self.bad):
            return None
        value: Any = self.data
        for name in path:
            value = value[name]
        return TypeAdapter(kind).validate_python(value)

    def entries(self, kind: Any, mapping: str) -> dict[str, Any]:
        """The sound entries of a mapping."""
        held = self.data.get(mapping)
        found = {name: self.sound(kind, mapping, name) for name in held} if isinstance(held, dict) else {}
        return {name: entry for name, entry in found.items() if entry is not None}


def draft(composed: DictConfig) -> Draft:
    schema = Schema(Config)
    unread: dict[Location, str] = {}
    data = _plain(composed, (), unread)
    blank = [schema.place(location, data) for location in unread]
    try:
        TypeAdapter(Config).validate_python(data)
        errors = []
    except ValidationError as error:
        errors = error.errors(include_url=False)
    told = [error for error in errors if not _concerns(schema.place(error["loc"], data), blank)]
    lines = [_blank_line(place, why, schema) for place, why in zip(blank, unread.values(), strict=True)]
    lines += _schema_lines(told, data, schema)
    return Draft(data, lines, {*unread, *(error["loc"] for error in errors)})


def _plain(node: Container, location: Location, unread: dict[Location, str]) -> Any:
    """Dicts, lists and scalars. What is unset or cannot be resolved is noted in `unread`, and null here."""

    def entry(key: Any) -> Any:
        place = (*location, key)
        try:
            value = node[key]
        except (OmegaConfBaseException, RecursionError) as error:
            raw = OmegaConf.to_container(node, resolve=False)[key]
            unread[place] = "" if raw == "???" else f"{raw}: {str(error).splitlines()[0]}"
            return None
        return _plain(value, place, unread) if isinstance(value, Container) else value

    if isinstance(node, DictConfig):
        return {key: entry(key) for key in node}
    return [entry(index) for index in range(len(node))]


def _blank_line(place: Place, why: str, schema: Schema) -> str:
    if why:
        return f"{place.path}={why}; name a key that exists, or give the value itself"
    return f"{place.path} is not set (???): give {schema.allowed(place.node) if place.node else 'a value'}"


def _concerns(place: Place, blank: list[Place]) -> bool:
    """A blank is told as such, and not again as what the schema makes of it, or of a group for lack of its kind."""
    pairs = [(f"{place.path}.", f"{one.path}.") for one in blank]
    return any(path.startswith(other) or other.startswith(path) for path, other in pairs)


def _schema_lines(errors: list[Any], data: dict[str, Any], schema: Schema) -> Iterator[str]:
    """One line a place, though a union complains once for each of its members."""
    if data.get("workloads") == data.get("arms") == {}:
        yield "workloads={} and arms={}: nothing to run; choose an experiment with +exp=NAME, such as +exp=short_ctx"
        errors = [error for error in errors if error["loc"] not in {("workloads",), ("arms",)}]
    misspelt = {
        (*error["loc"][:-1], meant(error["loc"][-1], schema.place(error["loc"], data).names))
        for error in errors
        if error["type"] == "unexpected_keyword_argument"
    }
    missing = [error["loc"] for error in errors if error["type"] == "missing" and error["loc"] not in misspelt]
    for _, locations in groupby(missing, lambda location: location[:-1]):
        yield _missing_line([schema.place(location, data) for location in locations], schema)
    merged = [error["loc"] for error in errors if _of_another_kind(error, data, schema)]
    for group, locations in groupby(merged, lambda location: location[:-1]):
        yield _merged_line(group, [location[-1] for location in locations], data, schema)
    told = {schema.place(location, data).path for location in merged}
    for error in errors:
        place = schema.place(error["loc"], data)
        if error["type"] != "missing" and place.path not in told:
            told.add(place.path)
            yield _line(error, place, schema)


def _missing_line(places: list[Place], schema: Schema) -> str:
    """On keys that one group lacks."""
    if len(places) == 1:
        return f"{places[0].path} is missing: give {schema.allowed(places[0].node)}"
    parent, names = places[0].path.rpartition(".")[0], [place.path.rpartition(".")[2] for place in places]
    return f"{parent or 'the config'} lacks {', '.join(names)}: give them, or choose an option that has them"


def _of_another_kind(error: Any, data: dict[str, Any], schema: Schema) -> bool:
    if error["type"] != "unexpected_keyword_argument" or error["loc"][-1] not in schema.keys_of_kinds():
        return False
    return "kind" in schema.place(error["loc"], data).names


def _merged_line(group: Location, names: list[str], data: dict[str, Any], schema: Schema) -> str:
    """On what a group keeps of the kind that it was before an override."""
    place = schema.place(group, data)
    item = max(number for number, step in enumerate(group) if isinstance(step, int))
    whole = schema.place(group[:item], data).path
    return (
        f"{place.path}: kind {place.value['kind']} has no {', '.join(names)}; an override is merged into the group "
        f"that is there: write the whole list, '{whole}=[{{...}}]'"
    )


def _line(error: Any, place: Place, schema: Schema) -> str:
    if error["type"] == "unexpected_keyword_argument":
        return f"{place.path}={shown(place.value)}: unknown key; {nearest(error['loc'][-1], place.names, place.deeper)}"
    if error["loc"][-1] == "[key]" and error["type"] == "literal_error":
        names = LITERAL.findall(error["ctx"]["expected"])
        return f"{place.path}={shown(place.value)}: unknown key; {nearest(error['input'], names)}"
    if error["loc"][-1] == "[key]":
        rule = "a name has at most 64 letters, digits, _ . - and begins with a letter or digit"
        return f"{place.path}: the key {shown(error['input'])} is no name; {rule}"
    allowed = schema.allowed(place.node) if place.node else "something else"
    said = f"{place.path}={shown(place.value)}"
    if isinstance(place.value, str) and schema.is_group(place.node):
        return f"{said}: text where a group of settings belongs; {_choice(place)}"
    if place.value == {} and place.path in GROUP_OF_ENTRIES:
        group = GROUP_OF_ENTRIES[place.path]
        return f"{said}: empty; add one with +{group}@{place.path}.NAME=OPTION, OPTION a file of conf/{group}"
    return f"{said}: must be {allowed}"


def _choice(place: Place) -> str:
    """How a group's option is chosen on the command line."""
    top, *below = place.path.split(".")
    if len(below) > 1 or (below and top not in GROUP_OF_ENTRIES):
        return "give its keys one by one"
    if below:
        right = f"{GROUP_OF_ENTRIES[top]}@{place.path}={place.value}"
        return f"to choose an option write {right} (+{right} for a new entry)"
    key = "variant@reference" if top == "reference" else top
    return f"to choose an option write {key}={place.value}, in an experiment `override /{key}: {place.value}`"
