"""`_target_` and its knobs -> the object that runs a stage, or what is wrong with them."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import reduce
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic import Field as Bounds

from pipeline.door.words import Schema, nearest, shown
from pipeline.engine.layer import Stages
from pipeline.schema import ConfigError, Knobs, Model, Variant

FINITE = ConfigDict(allow_inf_nan=False)
Size = Annotated[int, Bounds(ge=1, lt=1 << 31)]  # what a knob is whose type is a plain int


def build(knobs: Knobs, where: str) -> Any:
    """An instance of the class that `_target_` names, with the knobs as its fields. ConfigError where it cannot be."""
    target = _target(knobs, where)
    with _told(_named(knobs, where)):
        faults = list(_knob_faults(target, knobs, where))
    if faults:
        raise ConfigError(faults)
    values = _values(knobs)
    try:
        return target(**values)
    except ValueError as error:
        raise ConfigError([f"{where}={shown(values)}: {error}"]) from error
    except (Exception, SystemExit) as error:
        raise ConfigError([f"{_named(knobs, where)}: {type(error).__name__} from {shown(values)}: {error}"]) from error


def problems(variant: Variant, model: Model | None, where: str, device: str | None) -> Iterator[str]:
    """A line for each stage that cannot be built, breaks its contract, or refuses the model or the device.

    `device`: cpu or cuda. A class that runs on one of them only says so: `device: ClassVar[str] = "cuda"`; one that
    needs a package says with `missing()` which one is not there, and how to get it.
    """
    if variant.streams > 1 and device == "cpu":
        yield f"{where}.streams={variant.streams}: a CPU has none, engine.device is cpu here; use {where}.streams=1"
    for stage, contract in contracts():
        knobs, place = reduce(_part, stage.split("."), variant), f"{where}.{stage}"
        if knobs is None:
            continue
        try:
            made = build(knobs, place)
            with _told(_named(knobs, place)):
                fault = _misfit(made, stage, contract, model, device)
        except ConfigError as error:
            yield from error.lines
        else:
            yield from [f"{_named(knobs, place)}: {fault}"] if fault else []


def contracts(stages: type = Stages) -> Iterator[tuple[str, type]]:
    """Each place in a variant and the contract of what runs there, as the layer declares it."""
    for name, kind in get_type_hints(stages).items():
        whole = next(filter(is_dataclass, (kind, *get_args(kind))), None)
        if whole:
            yield from ((f"{name}.{part}", contract) for part, contract in contracts(whole))
        elif kind not in (bool, int):
            yield name, kind


def _misfit(made: Any, stage: str, contract: type, model: Model | None, device: str | None) -> str | None:
    takes, needed = _parameters(type(made)), _parameters(contract)
    if takes != needed:
        return f"takes ({takes}), {stage} is called with ({needed}); name another class"
    only = getattr(made, "device", device)
    if device and only != device:
        remedy = "choose another variant or a machine with a GPU" if only == "cuda" else f"use engine.device={only}"
        return f"runs on {only} only, engine.device is {device} here; {remedy}"
    if refusal := model and hasattr(made, "refuses") and made.refuses(model):
        return f"refuses model {model.name}: {refusal}"
    if absent := hasattr(made, "missing") and made.missing():
        return f"{absent}, or choose another variant"
    return None


@contextmanager
def _told(said: str) -> Iterator[None]:
    """What somebody's class raises when it is looked at is a line too."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise ConfigError([f"{said}: cannot be used: {type(error).__name__}: {error}"]) from error


def _part(group: Any, name: str) -> Any:
    return group and getattr(group, name)


def _target(knobs: Knobs, where: str) -> type:
    path, said = knobs.get("_target_"), _named(knobs, where)
    if not (isinstance(path, str) and "." in path and all(part.isidentifier() for part in path.split("."))):
        raise ConfigError([f"{said}: give a class as package.module.Class, such as kernels.attend.reference.Attend"])
    module_path, name = path.rsplit(".", 1)
    try:
        module = importlib.import_module(module_path)
    except ModuleNotFoundError as error:
        if f"{module_path}.".startswith(f"{error.name}."):
            raise ConfigError([f"{said}: there is no module {error.name}; {_modules_beside(error.name)}"]) from error
        raise ConfigError([f"{said}: cannot be imported here: {error}"]) from error
    except (Exception, SystemExit) as error:
        raise ConfigError([f"{said}: cannot be imported here: {type(error).__name__}: {error}"]) from error
    if not _runs(getattr(module, name, None)):
        names = [key for key, value in vars(module).items() if _runs(value) and value.__module__ == module_path]
        raise ConfigError([f"{said}: is no dataclass with a __call__; {nearest(name, names)}"])
    return getattr(module, name)


def _knob_faults(target: type, knobs: Knobs, where: str) -> Iterator[str]:
    known = {field.name: field for field in fields(target) if field.init}
    types = get_type_hints(target, include_extras=True)
    for name, value in _values(knobs).items():
        if name not in known:
            yield f"{where}.{name}={shown(value)}: {knobs['_target_']} has no such knob; {nearest(name, known)}"
            continue
        kind = Size if types[name] is int else types[name]
        try:
            TypeAdapter(kind, config=FINITE).validate_python(value, strict=True)
        except ValidationError:
            schema = Schema(kind)
            yield f"{where}.{name}={shown(value)}: must be {schema.allowed(schema.root)}"
    for name, field in known.items():
        if name not in knobs and field.default is MISSING and field.default_factory is MISSING:
            yield f"{where}.{name} is missing: {knobs['_target_']} needs it"


def _values(knobs: Knobs) -> dict[str, Any]:
    return {name: value for name, value in knobs.items() if name != "_target_"}


def _named(knobs: Knobs, where: str) -> str:
    return f"{where}._target_={shown(knobs.get('_target_'))}"


def _runs(candidate: Any) -> bool:
    return inspect.isclass(candidate) and is_dataclass(candidate) and inspect.isfunction(candidate.__call__)


def _parameters(kind: type) -> str:
    return ", ".join(list(inspect.signature(kind.__call__).parameters)[1:])


def _modules_beside(missing: str) -> str:
    parent, _, name = missing.rpartition(".")
    if not parent:
        return "is the package that holds it installed?"
    return nearest(name, [module.name for module in pkgutil.iter_modules(importlib.import_module(parent).__path__)])
