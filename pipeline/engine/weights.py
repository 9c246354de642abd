"""The weights of one attention layer in the form that it multiplies with."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from kernels.contracts import Project
from pipeline.fields import Kind
from pipeline.schema import Model

PROJECTED = ("q_kv", "q", "o_b", "index_q")


@dataclass(frozen=True)
class CompressorWeights:
    ape: Tensor  # float32 [C, F * d]
    norm: Tensor  # [d]


@dataclass(frozen=True)
class LayerWeights:
    """Projections that share an input are one matrix, rows in the order of the name.

    Those whose type is Any are tensors, or what the arm's own projection makes of them.
    """

    q_kv: Any  # [q_lora_rank + D, hidden]: wq_a, wkv
    q_norm: Tensor  # [q_lora_rank]
    q: Any  # [H * D, q_lora_rank]
    kv_norm: Tensor  # [D]
    sink: Tensor  # float32 [H]
    o_a: Tensor  # [G, o_lora_rank, H * D / G]
    o_b: Any  # [hidden, G * o_lora_rank]
    compress: Tensor | None  # [sum, hidden]: main wkv, wgate, index wkv, wgate
    main: CompressorWeights | None
    index: CompressorWeights | None
    index_q: Any  # [I * X, q_lora_rank]
    index_weights: Tensor | None  # [I, hidden]


def overlap(kind: Kind) -> int:
    """Windows pooled into one entry: csa pools the window before as well."""
    return 2 if kind == "csa" else 1


def assemble(tensors: Mapping[str, Tensor], model: Model, dtype: torch.dtype, device: torch.device) -> LayerWeights:
    """One rank's tensors in the form that the layer multiplies with.

    The compressors' projections give float32. On a GPU that is a bf16 product with a float32 result; elsewhere they are
    kept in float32.
    """

    def matrix(*names: str) -> Tensor:
        return torch.cat([tensors[name].to(device, dtype) for name in names])

    def exact(name: str) -> Tensor:
        return tensors[name].to(device, torch.float32)

    def compressor(prefix: str) -> CompressorWeights | None:
        if f"{prefix}.ape" not in tensors:
            return None
        return CompressorWeights(exact(f"{prefix}.ape"), exact(f"{prefix}.norm"))

    compress = [
        name
        for prefix in ("compressor", "indexer.compressor")
        for name in (f"{prefix}.wkv", f"{prefix}.wgate")
        if name in tensors
    ]
    indexed = "indexer.wq_b" in tensors
    wo_a = matrix("wo_a")
    return LayerWeights(
        q_kv=matrix("wq_a", "wkv"),
        q_norm=exact("q_norm"),
        q=matrix("wq_b"),
        kv_norm=exact("kv_norm"),
        sink=exact("attn_sink"),
        o_a=wo_a.view(-1, model.o_lora_rank, wo_a.shape[1]),
        o_b=matrix("wo_b"),
        compress=matrix(*compress).to(dtype if device.type == "cuda" else torch.float32) if compress else None,
        main=compressor("compressor"),
        index=compressor("indexer.compressor"),
        index_q=matrix("indexer.wq_b") if indexed else None,
        index_weights=matrix("indexer.weights_proj") if indexed else None,
    )


def float32(held: LayerWeights) -> LayerWeights:
    """The same values for float32 arithmetic."""
    return replace(
        held,
        **{item.name: value.float() for item in fields(held) if isinstance(value := getattr(held, item.name), Tensor)},
    )


def prepared(held: LayerWeights, project: Project) -> LayerWeights:
    """Projections in the form that an arm multiplies with."""
    return replace(
        held, **{name: project.prepared(value) for name in PROJECTED if (value := getattr(held, name)) is not None}
    )
