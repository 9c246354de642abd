"""What the machine offers, and what `auto` means on it."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pipeline.schema import Engine


@dataclass(frozen=True)
class Hardware:
    gpu: str | None  # name
    driver: str | None
    bf16: bool  # multiplied in hardware


def hardware(device: str) -> Hardware:
    """`device`: cpu or cuda."""
    if device == "cuda":
        bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return Hardware(torch.cuda.get_device_name(), _driver(), bf16)
    return Hardware(None, None, _cpu_multiplies_bf16())


def resolved(engine: Engine) -> Engine:
    """The engine without `auto`. ValueError where the device that it names is not there, or has no graphs."""
    there = torch.cuda.is_available()
    if engine.device == "cuda" and not there:
        raise ValueError("engine.device=cuda: torch sees no CUDA device here; allowed here: cpu, auto")
    device = engine.device if engine.device != "auto" else "cuda" if there else "cpu"
    if engine.graph != "off" and device != "cuda":
        raise ValueError(
            f"engine.graph={engine.graph}: CUDA graphs need a CUDA device, engine.device is {device} here; "
            "use engine.graph=off"
        )
    dtype = engine.dtype if engine.dtype != "auto" else "bf16" if hardware(device).bf16 else "fp32"
    return replace(engine, device=device, dtype=dtype)


def _cpu_multiplies_bf16() -> bool:
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") or capabilities.get("bf16"))


def _driver() -> str | None:
    """As the NVIDIA kernel module tells it."""
    told = Path("/proc/driver/nvidia/version")
    found = re.search(r"Kernel Module.*?(\d{3,}\.[\d.]+)", told.read_text()) if told.exists() else None
    return found[1] if found else None
