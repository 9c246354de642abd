"""transformers' DeepseekV4Attention as an independent opinion on one layer, in float32 on the CPU."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.models.deepseek_v4.configuration_deepseek_v4 import DeepseekV4Config
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4Attention, DeepseekV4RotaryEmbedding

from pipeline.schema import Kind, Model

LAYER_TYPES = {
    "swa": "sliding_attention",
    "csa": "compressed_sparse_attention",
    "hca": "heavily_compressed_attention",
}
NAMES = {
    "wq_a": "q_a_proj.weight",
    "q_norm": "q_a_norm.weight",
    "wq_b": "q_b_proj.weight",
    "wkv": "kv_proj.weight",
    "kv_norm": "kv_norm.weight",
    "attn_sink": "sinks",
    "wo_a": "o_a_proj.weight",
    "wo_b": "o_b_proj.weight",
    "compressor.wkv": "compressor.kv_proj.weight",
    "compressor.wgate": "compressor.gate_proj.weight",
    "compressor.ape": "compressor.position_bias",
    "compressor.norm": "compressor.kv_norm.weight",
    "indexer.wq_b": "compressor.indexer.q_b_proj.weight",
    "indexer.weights_proj": "compressor.indexer.scorer.weights_proj.weight",
    "indexer.compressor.wkv": "compressor.indexer.kv_proj.weight",
    "indexer.compressor.wgate": "compressor.indexer.gate_proj.weight",
    "indexer.compressor.ape": "compressor.indexer.position_bias",
    "indexer.compressor.norm": "compressor.indexer.kv_norm.weight",
}


@dataclass(frozen=True)
class Oracle:
    attention: DeepseekV4Attention
    rotary: DeepseekV4RotaryEmbedding
    window: int

    @torch.no_grad()
    def __call__(self, hidden: Tensor) -> tuple[Tensor, list[set[int]] | None]:
        """hidden [T, hidden] of one whole sequence -> output [T, hidden] and, for csa, the entries each token selects.

        The mask is always given: without one the bare module drops causality.
        """
        length = len(hidden)
        positions = torch.arange(length)
        distance = positions[:, None] - positions
        seen = (distance >= 0) & (distance < self.window)
        mask = torch.zeros(length, length).masked_fill(~seen, -torch.inf)[None, None]
        embeddings = {
            name: self.rotary(hidden[None], position_ids=positions[None], layer_type=name)
            for name in ("main", "compress")
        }
        chosen = []
        indexer = getattr(self.attention.compressor, "indexer", None)
        handle = indexer.register_forward_hook(lambda *call: chosen.append(call[-1])) if indexer else None
        output, _ = self.attention(hidden[None], embeddings, positions[None], mask)
        if handle is None:
            return output[0], None
        handle.remove()
        return output[0], [set(row.tolist()) - {-1} for row in chosen[0][0]]


def oracle(model: Model, kind: Kind, tensors: Mapping[str, Tensor]) -> Oracle:
    config = DeepseekV4Config(
        hidden_size=model.hidden,
        num_hidden_layers=1,
        num_attention_heads=model.heads,
        head_dim=model.head_dim,
        partial_rotary_factor=model.rope_dim / model.head_dim,
        q_lora_rank=model.q_lora_rank,
        o_groups=model.o_groups,
        o_lora_rank=model.o_lora_rank,
        sliding_window=model.window,
        compress_rates={LAYER_TYPES["csa"]: model.compress_ratio, LAYER_TYPES["hca"]: model.hca_ratio},
        layer_types=[LAYER_TYPES[kind]],
        mlp_layer_types=["moe"],
        index_n_heads=model.index_heads,
        index_head_dim=model.index_dim,
        index_topk=model.topk,
        rms_norm_eps=model.norm_eps,
        rope_theta=model.rope_theta,
        compress_rope_theta=model.compress_rope_theta,
        rope_parameters={
            "rope_type": "yarn",
            "factor": model.yarn.factor,
            "original_max_position_embeddings": model.yarn.original_length,
            "beta_fast": model.yarn.beta_fast,
            "beta_slow": model.yarn.beta_slow,
        },
    )
    config._attn_implementation = "eager"
    attention = DeepseekV4Attention(config, 0).eval()
    attention.load_state_dict({NAMES[name]: tensor.float() for name, tensor in tensors.items()})
    return Oracle(attention, DeepseekV4RotaryEmbedding(config), model.window)
