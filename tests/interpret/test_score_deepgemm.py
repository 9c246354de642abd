"""What is put before and behind DeepGEMM's kernels: own lengths and tables, gathered keys, -inf."""

import torch

from kernels.layouts import FP8IndexCache
from kernels.select.score_deepgemm import _fill, _gather, _places

I32 = torch.int32


def test_every_row_gets_its_length_and_its_request_s_table():
    positions = torch.tensor([3, 2, 1000, 0, 7], dtype=I32)
    request = torch.tensor([2, 0, 1, 1, 0], dtype=I32)
    valid = torch.tensor([True, True, True, True, False])
    block_table = torch.arange(3 * 300, dtype=I32).view(3, 300)
    lengths = torch.full((5, 1), -7, dtype=I32)
    table = torch.full((5, 290), -7, dtype=I32)
    _places[(5,)](positions, request, valid, block_table, lengths, table, 290, 300, RATIO=4, BLOCK=256)
    assert lengths.flatten().tolist() == [1, 1, 250, 1, 1]
    assert torch.equal(table, block_table[request.long(), :290])


def test_keys_and_scales_of_a_request_are_gathered_in_order():
    cache = FP8IndexCache.empty(7, 64, 128)
    cache.insert(torch.arange(7 * 64), torch.randn(7 * 64, 128))
    block_table = torch.tensor([[4, 1, 0], [6, 5, 2]], dtype=I32)
    keys, scales = torch.empty(2 * 2 * 64, 128, dtype=torch.uint8), torch.empty(2 * 2 * 64)
    _gather[(2, 2)](
        cache.data, cache.data.view(torch.float32), block_table, keys, scales, 3, PAGE_BYTES=8640, X=128, PAGE=64
    )
    slots = (block_table[:, :2, None] * 64 + torch.arange(64)).flatten()
    assert torch.equal(keys.view(torch.float8_e4m3fn).float() * scales[:, None], cache.gather(slots))


def test_what_a_row_does_not_see_becomes_minus_infinity():
    positions = torch.tensor([3, 39, 2], dtype=I32)
    valid = torch.tensor([True, True, True])
    scores = torch.zeros(3, 12)
    _fill[(3, 3)](scores, positions, valid, 12, 10, RATIO=4, BLOCK=4)
    wanted = torch.zeros(3, 12)
    wanted[0, 1:10] = wanted[2, :10] = -torch.inf
    assert torch.equal(scores, wanted)
