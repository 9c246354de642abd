from types import SimpleNamespace

import pytest

from kernels.compress.fused import Compress
from kernels.emit.fused import Emit
from kernels.ingest.fused import Ingest


@pytest.mark.parametrize("stage", [Ingest(), Emit(), Compress()], ids=lambda x: type(x).__name__)
def test_pairs_that_begin_at_an_odd_channel_are_refused(stage):
    assert stage.refuses(SimpleNamespace(head_dim=512, index_dim=128, rope_dim=64)) is None
    reason = stage.refuses(SimpleNamespace(head_dim=73, index_dim=128, rope_dim=64))
    assert "73 channels of which 64 turn" in reason


def test_compress_looks_at_the_index_keys_too():
    reason = Compress().refuses(SimpleNamespace(head_dim=512, index_dim=127, rope_dim=64))
    assert "127 channels of which 64 turn" in reason
