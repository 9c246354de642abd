"""Kernels of other packages, found where they are installed. vllm is opened, never imported, which takes seconds."""

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

FLASHMLA, OPS, DEEP_GEMM = "_flashmla_C.abi3.so", "_C_stable_libtorch.abi3.so", "third_party/deep_gemm/__init__.py"


def absent(what: str, path: str, package: str | None = None) -> str | None:
    """What is missing and how to get it; None where the package, or the file of vllm at `path`, is there."""
    if (package and find_spec(package)) or _in_vllm(path):
        return None
    return f"{what} is not installed; pip install vllm==0.26.0 into an environment with torch 2.11"


@cache
def flashmla() -> Any:
    """What holds sparse_decode_fwd and sparse_prefill_fwd."""
    return _library(FLASHMLA, "_flashmla_C")


@cache
def vllm_ops() -> Any:
    """torch.ops._C of vllm."""
    return _library(OPS, "_C")


@cache
def deep_gemm() -> ModuleType:
    """The package, or vllm's copy of it under the package's name. It compiles its kernels at their first call."""
    if find_spec("deep_gemm"):
        return import_module("deep_gemm")
    file = _found(DEEP_GEMM)
    spec = spec_from_file_location("deep_gemm", file, submodule_search_locations=[str(file.parent)])
    module = sys.modules["deep_gemm"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _library(file: str, namespace: str) -> Any:
    torch.ops.load_library(str(_found(file)))
    return getattr(torch.ops, namespace)


def _found(path: str) -> Path:
    file = _in_vllm(path)
    if file is None:
        raise ValueError(absent(path, path))
    return file


def _in_vllm(path: str) -> Path | None:
    spec = find_spec("vllm")
    places = (spec and spec.submodule_search_locations) or []
    return next((file for place in places if (file := Path(place, path)).exists()), None)
