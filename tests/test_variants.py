"""Knobs to objects: what a class may ask for, and what it is refused for."""

import sys
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import ClassVar, Literal

import pytest

from kernels.emit.reference import Emit as Reference
from pipeline.door.variants import build, problems
from pipeline.schema import ConfigError, Model, Variant
from tests.compose import config


@dataclass(frozen=True)
class Emit:
    rows: int
    mode: Literal["wide", "narrow"] = "wide"
    share: float = 0.5
    held: int = field(default=0, init=False)

    def __post_init__(self):
        if self.rows % 2:
            raise ValueError(f"rows={self.rows} must be even")

    def __call__(self, o, rope, rows, wo_a):
        return o

    def refuses(self, model: Model) -> str | None:
        return f"topk {model.topk} is above 2" if model.topk > 2 else None


@dataclass(frozen=True)
class Quick(Emit):
    rows: int = 2
    device: ClassVar[str] = "cuda"


@dataclass(frozen=True)
class Foreign(Quick):
    def missing(self) -> str | None:
        return "Foreign is not installed; pip install foreign"


@dataclass(frozen=True)
class Silent:
    rows: int = 1


@pytest.fixture(autouse=True)
def package(monkeypatch):
    module = ModuleType("outside.emit")
    for kind in (Emit, Quick, Foreign, Silent):
        setattr(module, kind.__name__, kind)
        monkeypatch.setattr(kind, "__module__", "outside.emit")
    parent = ModuleType("outside")
    parent.__path__ = []
    monkeypatch.setitem(sys.modules, "outside", parent)
    monkeypatch.setitem(sys.modules, "outside.emit", module)


@pytest.fixture(scope="module")
def tiny():
    return config("+exp=short_ctx", "model=tiny")


def lines(knobs: dict) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        build(knobs, "arms.x.emit")
    return caught.value.lines


def emit(**knobs) -> dict:
    return {"_target_": "outside.emit.Emit", **knobs}


def test_knobs_become_fields():
    assert build(emit(rows=4, mode="narrow"), "arms.x.emit") == Emit(4, "narrow")
    assert build({"_target_": "kernels.emit.reference.Emit"}, "arms.x.emit") == Reference()


@pytest.mark.parametrize(
    ("knobs", "told"),
    [
        (emit(), "arms.x.emit.rows is missing: outside.emit.Emit needs it"),
        (emit(rows=0), "arms.x.emit.rows=0: must be a whole number from 1"),
        (emit(rows="4"), "arms.x.emit.rows='4': must be a whole number from 1"),
        (emit(rows=True), "arms.x.emit.rows=true: must be a whole number from 1"),
        (emit(rows=10**20), f"arms.x.emit.rows={10**20}: must be a whole number from 1 and below 2147483648"),
        (emit(rows=2, mode="wid"), "arms.x.emit.mode='wid': must be wide or narrow"),
        (emit(rows=2, share=float("nan")), "arms.x.emit.share=nan: must be a number"),
        (emit(rows=2, share=None), "arms.x.emit.share=null: must be a number"),
        (emit(rows=2, shares=0.5), "arms.x.emit.shares=0.5: outside.emit.Emit has no such knob; did you mean share?"),
        (emit(rows=2, held=1), "arms.x.emit.held=1: outside.emit.Emit has no such knob"),
        (emit(rows=2, _partial_=True), "arms.x.emit._partial_=true: outside.emit.Emit has no such knob"),
        (emit(rows=3), "arms.x.emit={'rows': 3}: rows=3 must be even"),
        ({"rows": 3}, "arms.x.emit._target_=null: give a class as package.module.Class"),
        ({"_target_": "outside.emit.Emitt"}, "is no dataclass with a __call__; did you mean Emit? valid here: Emit"),
        ({"_target_": "outside.emit.Silent"}, "is no dataclass with a __call__"),
        ({"_target_": "outside.gone.Emit"}, "there is no module outside.gone"),
        ({"_target_": ".emit.Emit"}, "give a class as package.module.Class"),
    ],
)
def test_wrong_knobs_are_one_line(knobs, told):
    (line,) = lines(knobs)
    assert line.startswith("arms.x.emit") and told in line


def test_all_wrong_knobs_are_told():
    assert [line.split("=")[0] for line in lines(emit(rows=0, mode=1, foo=2))] == [
        "arms.x.emit.rows",
        "arms.x.emit.mode",
        "arms.x.emit.foo",
    ]


def test_a_module_that_breaks_on_import_is_told(tmp_path, monkeypatch):
    (tmp_path / "broken_kernel.py").write_text("import not_there_at_all\n")
    (tmp_path / "unfinished_kernel.py").write_text("def (\n")
    monkeypatch.syspath_prepend(tmp_path)
    (line,) = lines({"_target_": "broken_kernel.Emit"})
    assert "cannot be imported here: No module named 'not_there_at_all'" in line
    (line,) = lines({"_target_": "unfinished_kernel.Emit"})
    assert "cannot be imported here: SyntaxError" in line


@pytest.mark.parametrize("error", [ZeroDivisionError("no rows"), KeyError("rows"), SystemExit(3)], ids=repr)
def test_whatever_a_class_raises_is_a_line(tiny, monkeypatch, error, tmp_path):
    def raises(*_):
        raise error

    said = f"arms.x.emit._target_='outside.emit.Emit': {type(error).__name__} from {{'rows': 2}}: {error}"
    monkeypatch.setattr(Emit, "refuses", raises)
    (line,) = problems(with_emit(tiny.arms["never"], emit(rows=2)), tiny.model, "arms.x", "cpu")
    assert line == f"arms.x.emit._target_='outside.emit.Emit': cannot be used: {type(error).__name__}: {error}"
    monkeypatch.setattr(Emit, "__post_init__", raises)
    assert lines(emit(rows=2)) == [said]
    (tmp_path / "exiting_kernel.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "cannot be imported here: SystemExit: 3" in lines({"_target_": "exiting_kernel.Emit"})[0]


def test_a_knob_whose_type_is_not_known_is_told(monkeypatch):
    monkeypatch.setitem(Emit.__annotations__, "rows", "Rows_")
    (line,) = lines(emit(rows=2))
    assert line.startswith("arms.x.emit._target_='outside.emit.Emit': cannot be used: NameError: name 'Rows_'")


def with_emit(variant: Variant, knobs: dict) -> Variant:
    return replace(variant, emit=knobs)


def test_a_kernel_may_refuse_a_model(tiny):
    variant = with_emit(tiny.arms["never"], emit(rows=2))
    (line,) = problems(variant, tiny.model, "arms.x", "cpu")
    assert line == "arms.x.emit._target_='outside.emit.Emit': refuses model tiny: topk 4 is above 2"
    assert list(problems(variant, None, "arms.x", None)) == []


def test_a_kernel_may_refuse_a_device(tiny):
    variant = with_emit(tiny.arms["never"], {"_target_": "outside.emit.Quick"})
    (line,) = problems(variant, None, "arms.x", "cpu")
    assert line == (
        "arms.x.emit._target_='outside.emit.Quick': runs on cuda only, engine.device is cpu here; "
        "choose another variant or a machine with a GPU"
    )
    assert list(problems(variant, None, "arms.x", "cuda")) == list(problems(variant, None, "arms.x", None)) == []
    assert lines({"_target_": "outside.emit.Quick", "device": "cpu"})[0].startswith("arms.x.emit.device='cpu'")


def test_a_cpu_has_no_streams(tiny):
    variant = replace(tiny.arms["never"], streams=2)
    (line,) = problems(variant, None, "arms.x", "cpu")
    assert line == "arms.x.streams=2: a CPU has none, engine.device is cpu here; use arms.x.streams=1"
    assert list(problems(variant, None, "arms.x", "cuda")) == []


def test_a_kernel_may_need_a_package_that_is_not_there(tiny):
    """Told where it could run: on a CPU the package would not help."""
    variant = with_emit(tiny.arms["never"], {"_target_": "outside.emit.Foreign"})
    (line,) = problems(variant, None, "arms.x", "cuda")
    assert line == (
        "arms.x.emit._target_='outside.emit.Foreign': Foreign is not installed; pip install foreign, "
        "or choose another variant"
    )
    (line,) = problems(variant, None, "arms.x", "cpu")
    assert "runs on cuda only" in line


def test_a_class_of_another_stage_is_told(tiny):
    variant = with_emit(tiny.arms["never"], tiny.arms["never"].attend)
    (line,) = problems(variant, tiny.model, "arms.x", "cpu")
    assert "takes (q, keys, sink, scale), emit is called with (o, rope, rows, wo_a)" in line


def test_faults_of_all_stages_are_told(tiny):
    never = tiny.arms["never"]
    variant = replace(never, ingest=emit(rows=2), attend={"_target_": "x"}, emit=emit(rows=3))
    assert [line.split("=")[0] for line in problems(variant, tiny.model, "arms.x", "cpu")] == [
        "arms.x.ingest._target_",
        "arms.x.attend._target_",
        "arms.x.emit",
    ]
