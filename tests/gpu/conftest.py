"""Real shapes on a GPU. Every byte of the memory that torch hands out again is 127: a huge float, no slot as an int."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "kernels"))


@pytest.fixture(autouse=True, scope="session")
def what_is_loaded_stays_frozen():
    """Not here: frozen garbage would keep memory of the GPU."""


@pytest.fixture(autouse=True)
def poisoned_memory():
    sizes = [1 << 19] * 64 + [1 << 24] * 8 + [1 << 28]
    blocks = [torch.full((size,), 127, dtype=torch.uint8, device="cuda") for size in sizes]
    del blocks
