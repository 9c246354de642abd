"""RMS norm of the query's latent."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import rms_norm


@dataclass(frozen=True)
class Norm:
    def __call__(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return rms_norm(x.float(), weight.shape, weight.float(), eps).to(x.dtype)
