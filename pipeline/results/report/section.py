"""What a report is made of: Markdown under a title."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """`topic` tells a page which pictures belong to it; `folded`: long, and not what most readers came for."""

    title: str
    body: str
    topic: str = ""
    folded: bool = False


def titled(markdown: str, topic: str = "", folded: bool = False) -> Section:
    """Of Markdown that begins with its own `### title`."""
    title, _, body = markdown.removeprefix("### ").partition("\n\n")
    return Section(title, body, topic, folded)


def table(head: Sequence[str], alignment: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, alignment, *rows))


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def literal(text: str) -> str:
    """Of something that others wrote, such as an error: neither a tag nor a cell ends in it."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
