"""The tests of a stage as a module, for kernels that run elsewhere: its checks take an implementation's name."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any


def suite(name: str, **implementations: Any) -> ModuleType:
    """A fresh copy of test_NAME.py in which these are the implementations."""
    spec = spec_from_file_location(f"suite_{name}", Path(__file__).parent / f"test_{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.FAST = dict(implementations)
    module.ALL = dict(implementations)
    return module
