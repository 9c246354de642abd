"""One softmax over the keys that a token may attend, with the sink as one more logit that has no value."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.contracts import Keys


@dataclass(frozen=True)
class Attend:
    def __call__(self, q: Tensor, keys: Sequence[Keys], sink: Tensor | None, scale: float) -> Tensor:
        out = torch.zeros_like(q)
        lengths = [source.lengths.clamp(min=0).tolist() for source in keys]
        for t in range(q.shape[0]):
            slots = [source.slots[t, : length[t]] for source, length in zip(keys, lengths, strict=True)]
            places = [s[s >= 0] for s in slots]
            if not sum(p.numel() for p in places):
                continue
            key = torch.cat([source.cache.gather(p) for source, p in zip(keys, places, strict=True)])
            logits = q[t].float() @ key.T * scale
            total = logits.logsumexp(-1)
            if sink is not None:
                total = torch.logaddexp(total, sink.float())
            out[t] = (logits - total[:, None]).exp() @ key
        return out
