"""The schema in words: what stands at a place of the config, what may stand there, and which name was meant."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter

Node = dict[str, Any]  # of a JSON schema
ABSENT = object()


@dataclass(frozen=True)
class Place:
    """`path` is dotted, as in an override; `names` are the keys that its parent may have."""

    path: str
    value: Any
    node: Node | None
    names: tuple[str, ...]
    deeper: tuple[str, ...]  # dotted, from the parent


class Schema:
    """The JSON schema of a type, walked along with the data that should fit it."""

    def __init__(self, kind: Any):
        self.root: Node = TypeAdapter(kind).json_schema()
        self._shared: dict[str, Node] = self.root.get("$defs", {})

    def place(self, location: Sequence[str | int], data: Any) -> Place:
        """Where keys and indices lead. Pydantic's tag of a union is followed, but is no part of the path."""
        node, path, parent = self.root, [], self.root
        for step in location:
            node = self._inner(node)
            if "oneOf" in node:
                members = node["discriminator"]["mapping"]
                tag = step if step in members else data.get("kind") if isinstance(data, dict) else None
                node = self._inner({"$ref": members[tag]}) if tag in members else {}
                if tag == step:
                    continue
            if "anyOf" in node or step == "[key]":
                break
            parent, node = node, self._child(node, step)
            if isinstance(data, dict if isinstance(step, str) else list):
                data = data.get(step, ABSENT) if isinstance(data, dict) else data[step]
                path.append(str(step))
        names = tuple(parent.get("properties", ()))
        return Place(".".join(path), data, node or None, names, tuple(self._below(parent)))

    def allowed(self, node: Node) -> str:
        node = self._shared_node(node)
        if "oneOf" in node:
            kinds = list(node["discriminator"]["mapping"])
            return f"a whole number, a list of them,{' all,' * ('all' in kinds)} or a group with kind {_or(kinds)}"
        if "anyOf" in node:
            return ", or ".join(self.allowed(choice) for choice in node["anyOf"])
        if "enum" in node or "const" in node:
            return _or(node.get("enum", [node.get("const")]))
        match node.get("type"):
            case "integer":
                return f"a whole number {_bounds(node)}".strip()
            case "number":
                such = f", such as {_or(node['examples'])}" if "examples" in node else ""
                return f"a number {_bounds(node)}{such}".strip()
            case "boolean":
                return "true or false"
            case "null":
                return "null"
            case "string":
                text = "text that is not empty" if "minLength" in node else "text"
                return "a name of at most 64 letters, digits, _ . -" if "pattern" in node else text
            case "array":
                return f"a list{' of one or more' * ('minItems' in node)}, each {self.allowed(node['items'])}"
            case _:
                if "enum" in (keys := self._shared_node(node.get("propertyNames", {}))):
                    return f"a group with one or more of {', '.join(keys['enum'])}"
                return f"a group with {', '.join(node.get('properties', ['_target_']))}"

    def is_group(self, node: Node | None) -> bool:
        return node is not None and self._inner(node).get("type") == "object"

    def keys_of_kinds(self) -> set[str]:
        """The keys of all groups that come in several kinds."""
        kinds = [node["properties"] for node in self._shared.values() if "kind" in node.get("properties", {})]
        return set().union(*kinds)

    def _below(self, node: Node) -> Iterator[str]:
        """Dotted names of all keys further in: the first item stands for a list, NAME for the entries of a mapping."""
        for name, child in node.get("properties", {}).items():
            inner = self._inner(child)
            for entries in inner.get("patternProperties", {}).values():
                name, inner = f"{name}.NAME", self._inner(entries)
            if inner.get("type") == "array":
                name, inner = f"{name}.0", self._inner(inner["items"])
            yield from (f"{name}.{key}" for key in [*inner.get("properties", {}), *self._below(inner)])

    def _inner(self, node: Node) -> Node:
        """`node or null` is node where a location goes on."""
        node = self._shared_node(node)
        choices = [choice for choice in node.get("anyOf", ()) if choice.get("type") != "null"]
        return self._inner(choices[0]) if len(choices) == 1 else node

    def _shared_node(self, node: Node) -> Node:
        return self._shared[node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else node

    def _child(self, node: Node, step: str | int) -> Node:
        if isinstance(step, int):
            return node.get("items", {})
        entries = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
        child = node.get("properties", {}).get(step, entries[0])
        return child if isinstance(child, dict) else {}


def shown(value: Any) -> str:
    """As in YAML, and never long."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def nearest(name: Any, names: Iterable[str], deeper: Iterable[str] = ()) -> str:
    """`deeper` names are dotted; the last part of each is what `name` may have meant."""
    names = sorted(names)
    ends = {path.rsplit(".", 1)[1]: path for path in reversed(list(deeper))}
    close = meant(name, names) or ends.get(meant(name, ends))
    hint = f"did you mean {close}? " if close else ""
    return f"{hint}valid here: {', '.join(names)}" if names else "nothing is valid here"


def meant(name: Any, names: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(str(name), list(names), 1, 0.6)), None)


def _or(choices: Sequence[Any]) -> str:
    *others, last = [choice if isinstance(choice, str) else shown(choice) for choice in choices]
    return f"{', '.join(others)} or {last}" if others else last


def _bounds(node: Node) -> str:
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "and below"}
    if "exclusiveMinimum" in node:
        words["maximum"] = "and at most"
    return " ".join(f"{word} {_number(node[key])}" for key, word in words.items() if key in node)


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
