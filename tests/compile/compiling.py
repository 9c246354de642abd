"""Compile kernels for GPUs that this machine need not have."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

TARGETS = {
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


@dataclass(frozen=True)
class Compiled:
    text: str  # PTX, or AMD assembly
    shared: int  # bytes
    registers: int | None  # None where the target is not NVIDIA's
    spilled: int | None  # bytes of stack and local memory


def build(
    kernel: Any, arguments: dict[str, Any], constants: dict[str, Any], target: str = "sm_90", **options: int
) -> Compiled:
    """Arguments are named by type: `*bf16`, `i32`; `:16` divisible by 16, `:1` equal to 1; None; tuples of them."""
    names = kernel.arg_names
    assert {*arguments} | {*constants} == {*names}, names
    signature, known, attributes = {}, {}, {}
    for position, name in enumerate(names):
        if name in constants:
            signature[name], known[position,] = "constexpr", constants[name]
        else:
            signature[name] = _strip(arguments[name], (position,), known, attributes)
    source = (GluonASTSource if kernel.is_gluon() else ASTSource)(kernel, signature, known, attributes)
    made = triton.compile(source, target=TARGETS[target], options=options)
    binary = made.asm.get("cubin")
    registers, spilled = _resources(binary) if binary else (None, None)
    return Compiled(made.asm.get("ptx") or made.asm["amdgcn"], made.metadata.shared, registers, spilled)


def with_ones(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments with each integer in turn equal to 1."""
    for name, types in arguments.items():
        for changed in _ones(types):
            yield arguments | {name: changed}


def _ones(types: Any) -> Iterator[Any]:
    if isinstance(types, tuple):
        for i, inner in enumerate(types):
            for changed in _ones(inner):
                yield (*types[:i], changed, *types[i + 1 :])
    elif types is not None and types.startswith("i"):
        yield "i32:1"


def _strip(types: Any, path: tuple[int, ...], known: dict, attributes: dict) -> Any:
    if isinstance(types, tuple):
        return tuple(_strip(inner, (*path, i), known, attributes) for i, inner in enumerate(types))
    if types is None:
        known[path] = None
        return "constexpr"
    kind, _, hint = types.partition(":")
    if hint == "1":
        known[path] = 1
        return "constexpr"
    if hint == "16":
        attributes[path] = [["tt.divisibility", 16]]
    return kind


def _resources(binary: bytes) -> tuple[int, int]:
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        text = subprocess.run(
            [CUOBJDUMP, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True
        )
    used = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", text.stdout)}
    return used["REG"], used["STACK"] + used["LOCAL"]
