"""The tensors of one attention layer as a checkpoint has them: names and shapes, drawn from a seed or loaded."""

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from kernels.layouts import quantise_blocks
from pipeline.engine.weights import overlap
from pipeline.fields import Kind
from pipeline.schema import ConfigError, Model

FP8_BLOCK = 128
FP8 = "F8_E4M3"  # float8_e4m3fn, in the file
FLOAT32 = ("attn_sink", "ape")
STORED_FP8 = ("wq_a", "wkv", "wq_b", "wo_a", "wo_b", "indexer.wq_b")  # by the published checkpoints


def shapes(model: Model, kind: Kind, tp: int = 1) -> dict[str, tuple[int, ...]]:
    """Checkpoint name -> shape on one rank of tp: heads and output groups are divided, the rest is replicated."""
    heads, groups = model.heads // tp, model.o_groups // tp
    names: dict[str, tuple[int, ...]] = {
        "wq_a": (model.q_lora_rank, model.hidden),
        "q_norm": (model.q_lora_rank,),
        "wq_b": (heads * model.head_dim, model.q_lora_rank),
        "wkv": (model.head_dim, model.hidden),
        "kv_norm": (model.head_dim,),
        "attn_sink": (heads,),
        "wo_a": (groups * model.o_lora_rank, heads * model.head_dim // groups),
        "wo_b": (model.hidden, groups * model.o_lora_rank),
    }
    if kind != "swa":
        names |= _compressor_shapes("compressor", model, kind, model.head_dim)
    if kind == "csa":
        names |= {
            "indexer.wq_b": (model.index_heads * model.index_dim, model.q_lora_rank),
            "indexer.weights_proj": (model.index_heads, model.hidden),
        }
        names |= _compressor_shapes("indexer.compressor", model, kind, model.index_dim)
    return names


def _compressor_shapes(prefix: str, model: Model, kind: Kind, width: int) -> dict[str, tuple[int, ...]]:
    rows = overlap(kind) * width
    return {
        f"{prefix}.wkv": (rows, model.hidden),
        f"{prefix}.wgate": (rows, model.hidden),
        f"{prefix}.ape": (model.ratio(kind), rows),
        f"{prefix}.norm": (width,),
    }


def draw(model: Model, kind: Kind, tp: int, seed: int, device: torch.device) -> dict[str, Tensor]:
    """Weights that keep activations near unit size: N(0, 1 / inputs) matrices, norms near 1, sinks and ape N(0, 1).

    Values are those that the checkpoint's dtype can hold: e4m3 in blocks where it has that.
    """
    generator = torch.Generator(device).manual_seed(seed)
    drawn = {}
    for name, shape in shapes(model, kind, tp).items():
        normal = torch.randn(shape, generator=generator, device=device)
        if name.endswith("norm"):
            drawn[name] = 1 + 0.1 * normal
        elif name.endswith(FLOAT32):
            drawn[name] = normal
        else:
            normal.div_(shape[-1] ** 0.5)
            drawn[name] = _as_stored(normal) if name in STORED_FP8 else normal.bfloat16()
    return drawn


def _as_stored(weight: Tensor) -> Tensor:
    """bf16 of the nearest e4m3 values under one power-of-two scale for each block, exactly."""
    rows, columns = weight.shape
    if rows % FP8_BLOCK or columns % FP8_BLOCK:
        return weight.bfloat16()
    values, scales = quantise_blocks(weight, FP8_BLOCK)
    spread = scales.bfloat16().repeat_interleave(FP8_BLOCK, 0).repeat_interleave(FP8_BLOCK, 1)
    return values.bfloat16().mul_(spread)


def load(path: str, number: int, names: Container[str] | None = None) -> dict[str, Tensor]:
    """Attention tensors of layer `number` of a safetensors file, under their short names; only `names` if given.

    `layers.N.attn.` and `.weight` are dropped; fp8 tensors are multiplied by their 128 x 128 block scales NAME.scale.
    Names without a layer are taken for every layer. ConfigError where the file cannot be read.
    """
    with _opened(path) as file:
        held = {short: name for name in list(file.keys()) if (short := _short_name(name, number))}
        stored = {
            short: file.get_tensor(name)
            for short, name in held.items()
            if names is None or short.removesuffix(".scale") in names
        }
    return {name: _dequantised(name, tensor, stored) for name, tensor in stored.items() if not name.endswith(".scale")}


def lacking(path: str, model: Model, layers: Iterable[tuple[int, Kind]]) -> Iterator[str]:
    """A line for each layer (number, kind) for which a safetensors file lacks tensors or has them in another shape.

    Reads the file's header only. ConfigError where it cannot be read.
    """
    with _opened(path) as file:
        header = {name: file.get_slice(name) for name in list(file.keys())}
        sizes = {name: tuple(part.get_shape()) for name, part in header.items()}
        scaled = {name for name, part in header.items() if part.get_dtype() == FP8}
    for number, kind in layers:
        held = {short: name for name in sizes if (short := _short_name(name, number))}
        needed = shapes(model, kind)
        needed |= {
            f"{short}.scale": tuple(-(-size // FP8_BLOCK) for size in shape)
            for short, shape in needed.items()
            if held.get(short) in scaled
        }
        faults = list(_unfit({short: sizes[name] for short, name in held.items()}, needed, model))
        if faults:
            yield f"layer {number} ({kind}): {', '.join(faults)}"


def _unfit(found: Mapping[str, tuple[int, ...]], needed: Mapping[str, tuple[int, ...]], model: Model) -> Iterator[str]:
    yield from (f"tensor {name} is missing" for name in needed if name not in found)
    for name, shape in needed.items():
        if name in found and found[name] != shape:
            yield f"tensor {name} has shape {list(found[name])}, {model.name} needs {list(shape)}"


@contextmanager
def _opened(path: str) -> Iterator[safe_open]:
    try:
        with safe_open(Path(path), framework="pt") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise ConfigError([f"engine.weights={path}: not a readable safetensors file: {error}"]) from error


def _short_name(name: str, number: int) -> str | None:
    parts = name.removesuffix(".weight").split(".")
    if "layers" not in parts:
        return ".".join(parts)
    match parts[parts.index("layers") + 1 :]:
        case [layer, "attn", *rest] if layer == str(number):
            return ".".join(rest)
    return None


def _dequantised(name: str, tensor: Tensor, stored: Mapping[str, Tensor]) -> Tensor:
    if tensor.dtype != torch.float8_e4m3fn:
        return tensor
    scale = stored.get(f"{name}.scale")
    if scale is None:
        raise ConfigError([f"weights: tensor {name} is float8 and {name}.scale is missing"])
    blocks = scale.float().repeat_interleave(FP8_BLOCK, 0).repeat_interleave(FP8_BLOCK, 1)
    return (tensor.float() * blocks[: tensor.shape[0], : tensor.shape[1]]).bfloat16()


def shard(tensors: Mapping[str, Tensor], model: Model, kind: Kind, tp: int) -> dict[str, Tensor]:
    """What rank 0 of tp holds of full-size tensors. ConfigError names every missing or misshapen tensor."""
    full, rank = shapes(model, kind), shapes(model, kind, tp)
    faults = list(_unfit({name: tuple(tensor.shape) for name, tensor in tensors.items()}, full, model))
    if faults:
        raise ConfigError(f"weights of a {kind} layer: {fault}" for fault in faults)
    return {name: tensors[name][tuple(slice(size) for size in shape)] for name, shape in rank.items()}
