"""The rooms of the house: each may look down, never up."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted([*ROOT.glob("pipeline/**/*.py"), *ROOT.glob("kernels/**/*.py")])
CONTRACTS = ("kernels.contracts", "kernels.layouts", "kernels.rope")
VALUES = tuple(f"pipeline.evidence.{name}" for name in ("samples", "summary", "findings", "costs", "detected"))


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def files(room: str) -> tuple[str, ...]:
    """Without what lies in folders of its own."""
    return tuple(module(path) for path in ROOT.joinpath(*room.split(".")).glob("*.py") if path.stem != "__init__")


ALLOWED = {
    "pipeline.__main__": (
        "pipeline.schema",
        "pipeline.door",
        "pipeline.run",
        "pipeline.self_test",
        "pipeline.results.folder.status",
    ),
    "pipeline.session": ("pipeline.schema", "pipeline.door", "pipeline.engine"),
    "pipeline.schema": ("pipeline.fields", "pipeline.questions"),
    "pipeline.questions": ("pipeline.fields",),
    "pipeline.fields": (),
    "pipeline.door": (
        "pipeline.schema",
        "pipeline.fields",
        "pipeline.questions",
        "pipeline.work",
        "pipeline.door",
        *(f"pipeline.engine.{name}" for name in ("layer", "select", "device", "stack", "checkpoint")),
        "kernels.contracts",
    ),
    "pipeline.work": ("pipeline.schema", "pipeline.fields", "pipeline.questions", "pipeline.work"),
    "pipeline.engine": ("pipeline.schema", "pipeline.fields", "pipeline.work", *files("pipeline.engine"), *CONTRACTS),
    "pipeline.engine.arms": ("pipeline.schema", "pipeline.work", "pipeline.engine", *CONTRACTS),
    "pipeline.evidence": (
        *("pipeline.schema", "pipeline.work", "pipeline.engine", *CONTRACTS, *files("pipeline.evidence")),
        *(f"pipeline.evidence.{name}" for name in ("stats", "timing", "figures", "breakdown", "answers")),
    ),
    **dict.fromkeys(VALUES, VALUES),
    "pipeline.evidence.stats": ("pipeline.evidence.stats",),
    "pipeline.evidence.timing": (
        *("pipeline.schema", "pipeline.work", "pipeline.engine", *VALUES),
        *("pipeline.evidence.stats", "pipeline.evidence.timing"),
    ),
    "pipeline.evidence.figures": (
        *("pipeline.schema", "pipeline.work", *VALUES),
        *("pipeline.evidence.stats", "pipeline.evidence.timing.modes", "pipeline.evidence.figures"),
    ),
    "pipeline.evidence.breakdown": (
        *("pipeline.schema", "pipeline.fields", "pipeline.work", "pipeline.engine", *VALUES),
        *("pipeline.evidence.stats", "pipeline.evidence.timing", "pipeline.evidence.breakdown"),
    ),
    "pipeline.evidence.answers": (
        *("pipeline.schema", "pipeline.questions", "pipeline.work", *VALUES, "pipeline.evidence.answers"),
        *("pipeline.evidence.stats", "pipeline.evidence.timing.modes"),
    ),
    "pipeline.evidence.selftest": (
        *("pipeline.work", *VALUES, "pipeline.evidence.stats", "pipeline.evidence.figures"),
        *("pipeline.evidence.timing.clock", "pipeline.evidence.summarise", "pipeline.evidence.selftest"),
    ),
    "pipeline.results": ("pipeline.schema", *VALUES, "pipeline.results"),
    "pipeline.results.folder": ("pipeline.schema", *VALUES, "pipeline.results.folder"),
    "pipeline.results.plots": (
        *("pipeline.schema", *VALUES, "pipeline.results.table", "pipeline.results.folder", "pipeline.results.plots"),
    ),
    "pipeline.results.report": (
        *("pipeline.schema", *VALUES, "pipeline.results.folder", "pipeline.results.plots", "pipeline.results.report"),
        *(f"pipeline.results.{name}" for name in ("table", "verdict", "answers", "arms")),
    ),
    "pipeline.results.tracker": (
        *("pipeline.schema", *VALUES, "pipeline.results.folder", "pipeline.results.plots", "pipeline.results.tracker"),
        *(f"pipeline.results.{name}" for name in ("table", "verdict")),
    ),
    "kernels": ("kernels",),
}
ANSWERS_FAST = ("config", "draft", "rules", "questions", "scalars", "words", "commandline")
WITHOUT_TORCH = (
    "pipeline.__main__",
    "pipeline.schema",
    "pipeline.fields",
    "pipeline.work",
    *(f"pipeline.door.{name}" for name in ANSWERS_FAST),
    "pipeline.evidence.stats",
    "pipeline.results",
)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names} | {node.module}
    return found


def within(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


@pytest.mark.parametrize("path", FILES, ids=module)
def test_room(path: Path):
    name, seen = module(path), imports(path)
    ours = {item for item in seen if within(item, ("pipeline", "kernels"))}
    parents = {item for item in ours if any(other.startswith(f"{item}.") for other in ours)}
    room = max((room for room in ALLOWED if within(name, (room,))), key=len, default=None)
    if room:
        assert not {item for item in ours - parents if not within(item, ALLOWED[room])}
    if within(name, WITHOUT_TORCH):
        assert not {item for item in seen if within(item, ("torch", "triton"))}
    if name != "pipeline.results.track":
        assert not {item for item in seen if within(item, ("mlflow",))}
    outside = {item.split(".")[0] for item in seen} - set(sys.stdlib_module_names)
    if within(name, ("kernels",)):
        assert outside <= {"torch", "triton", "kernels"}
    if within(name, ("pipeline.evidence.stats",)):
        assert outside <= {"numpy", "scipy", "pipeline"}
    if within(name, ("pipeline",)):
        assert not {item for item in ours if within(item, ("kernels",)) and not within(item, CONTRACTS)} - {"kernels"}


def test_rooms_without_torch_do_not_import_it_by_way_of_another():
    names = [name for path in FILES if within(name := module(path), WITHOUT_TORCH)]
    script = f"import sys, {', '.join(names)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0


def test_small_files():
    long = {module(path): lines for path in FILES if (lines := len(path.read_text().splitlines())) > 250}
    assert not long, "a file above 250 lines needs a reason"
