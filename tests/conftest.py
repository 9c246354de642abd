"""One thread: small tensors gain nothing from more, and lose much on cores that others use too."""

import torch

torch.set_num_threads(1)
