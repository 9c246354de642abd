import pytest
import torch

from kernels.layouts import quantise
from kernels.project.fp8 import Project
from pipeline.engine.checkpoint import FP8_BLOCK

FLASH = [(1536, 4096), (32768, 1024), (4096, 8192), (8192, 1024)]  # q_kv, q, o_b, index_q
PRO = [(2048, 7168), (65536, 1536), (7168, 16384), (8192, 1536)]
OF_A_RANK_OF_EIGHT = [(4096, 1024), (7168, 2048)]  # q and o_b of Flash are one shape; q of Pro is its index_q
SHAPES = FLASH + PRO + OF_A_RANK_OF_EIGHT


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda").bfloat16()


@pytest.mark.parametrize("tokens", [1, 3, 16, 17, 64, 1000])
def test_rows_are_quantised_as_the_caches_do_it(tokens):
    spread = torch.logspace(-6, 6, 32, device="cuda").repeat_interleave(FP8_BLOCK)
    x = (drawn(tokens, 4096 + 512)[:, :4096] * spread).bfloat16()
    values, scales = Project().quantised(x)
    expected, expected_scales = quantise(x, FP8_BLOCK)
    assert torch.equal(values[:tokens].float(), expected.float())
    assert torch.equal(scales[:tokens], expected_scales)
    assert values[tokens:].float().abs().sum() == 0


@pytest.mark.parametrize("tokens", [1, 3, 16, 17, 64, 1000])
@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_equals_the_product_of_what_was_quantised(shape, tokens):
    project, x = Project(), drawn(tokens, shape[1], seed=tokens)
    weight = project.prepared(drawn(*shape) / shape[1] ** 0.5)
    values, scales = project.quantised(x)
    exact = values[:tokens].float() * scales[:tokens].repeat_interleave(FP8_BLOCK, 1)
    spread = weight.scales.repeat_interleave(FP8_BLOCK, 0).repeat_interleave(FP8_BLOCK, 1)
    expected = exact @ (weight.values.float() * spread).T
    actual = project(x, weight).float()
    assert actual.shape == expected.shape
    assert (actual - expected).norm() < 5e-3 * expected.norm()
