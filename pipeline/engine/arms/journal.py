"""What the stages of a layer are called with while it runs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from pipeline.engine.layer import Stages

UNTIMED = ("shortcut",)  # decides on the host
ENTRANCES = ("choose",)  # methods by which a layer calls a stage too


@dataclass(frozen=True)
class Note:
    """One call. `within`: the stage that made it, None for the layer. No arguments where they are not kept."""

    name: str
    within: str | None
    stage: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(eq=False)
class Journal:
    """`keeps`: with what each call got; otherwise only that it was made."""

    keeps: bool
    notes: list[Note] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)

    def noted(self, stages: Stages) -> Stages:
        """The same stages, and those that they are made of; all write into this journal."""
        return replace(stages, **dict(self._noted(stages)))

    def _noted(self, whole: Any) -> Iterator[tuple[str, Any]]:
        for item in fields(whole):
            stage = getattr(whole, item.name)
            run = replace(stage, **dict(self._noted(stage))) if hasattr(stage, "parts") else stage
            if item.name not in UNTIMED:
                yield item.name, Noted(item.name, stage, run, self) if callable(run) else run


class Noted:
    """A stage that says what it is called with."""

    def __init__(self, name: str, stage: Callable[..., Any], run: Callable[..., Any], journal: Journal):
        self.name, self.stage, self.run, self.journal = name, stage, run, journal

    def __call__(self, *arguments: Any) -> Any:
        inside = self.journal.inside
        within = inside[-1] if inside else None
        kept = tuple(_plain(argument) for argument in arguments) if self.journal.keeps else ()
        self.journal.notes.append(Note(self.name, within, self.stage, kept))
        inside.append(self.name)
        try:
            return self.run(*arguments)
        finally:
            inside.pop()

    def __getattr__(self, name: str) -> Any:
        if name in ENTRANCES:
            return Noted(self.name, getattr(self.stage, name), getattr(self.run, name), self.journal)
        return getattr(self.run, name)


def _plain(value: Any) -> Any:
    """Without the wrappers, which would write into the journal when the call is made again."""
    if isinstance(value, Noted):
        return value.stage
    if not is_dataclass(value):
        return value
    wrapped = {part.name: inner for part in fields(value) if isinstance(inner := getattr(value, part.name), Noted)}
    return replace(value, **{name: inner.stage for name, inner in wrapped.items()}) if wrapped else value
