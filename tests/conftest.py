"""One thread: small tensors gain nothing from more, and lose much on cores that others use too.

And no walks through what is loaded, 680,000 objects: those that `measure` asks for took a third of all the time.
"""

import gc
from collections.abc import Iterator

import pytest
import torch

torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="session")
def what_is_loaded_stays_frozen() -> Iterator[None]:
    """Also where a test has `measure` thaw all that is frozen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        yield
