"""vLLM's top-k operators, chosen as its sparse indexer chooses them. Of equal scores any wins, not the lowest entry."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from kernels import peers

WORKSPACE_BYTES = 1 << 20
FAST_SIZES = (512, 1024, 2048)  # topk of the cooperative and the persistent kernel
MOST_COOPERATIVE_ROWS = 32


@dataclass(frozen=True)
class TopK:
    """`many`: rows from which auto takes them for a prefill, for which vLLM has a kernel of its own."""

    device: ClassVar[str] = "cuda"
    kernel: Literal["auto", "cooperative", "persistent", "decode", "prefill"] = "auto"
    many: int = 1024

    def missing(self) -> str | None:
        return peers.absent("vLLM", peers.OPS)

    def refuses(self, model: Any) -> str | None:
        if self.kernel in ("cooperative", "persistent") and model.topk not in FAST_SIZES:
            return f"kernel={self.kernel} takes a topk of 512, 1024 or 2048, got {model.topk}; use kernel=auto"
        return None

    def __call__(self, scores: Tensor, visible: Tensor, topk: int) -> Tensor:
        """NaN among the scores is not defined."""
        rows, width = scores.shape
        chosen = torch.full((rows, topk), -1, dtype=torch.int32, device=scores.device)
        if not chosen.numel() or not width:
            return chosen
        ops, kernel = peers.vllm_ops(), self._chosen(scores, topk)
        strides = (rows, *scores.stride(), topk)
        match kernel:
            case "prefill":
                ops.top_k_per_row_prefill(scores, torch.zeros_like(visible), visible, chosen, *strides)
            case "decode":
                ops.top_k_per_row_decode(scores, 1, visible, chosen, *strides)
            case _:
                workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=scores.device)
                run = ops.cooperative_topk if kernel == "cooperative" else ops.persistent_topk
                run(scores, visible, chosen, workspace, topk, width)
        return chosen

    def _chosen(self, scores: Tensor, topk: int) -> str:
        rows = len(scores)
        if self.kernel != "auto":
            return self.kernel
        if rows >= self.many:
            return "prefill"
        if topk not in FAST_SIZES:
            return "decode"
        aligned = scores.stride(0) % 4 == 0
        return "cooperative" if rows <= MOST_COOPERATIVE_ROWS and aligned else "persistent"
