import math

import pytest
import torch
from kernel_cases import YARN

from kernels.rope import frequencies, rotate, table


def test_plain_frequencies_are_powers_of_theta():
    expected = torch.tensor([10000.0 ** (-2 * i / 64) for i in range(32)], dtype=torch.float64)
    torch.testing.assert_close(frequencies(10000.0, 64), expected, rtol=1e-14, atol=0)


def test_yarn_ramp_of_the_real_model_goes_from_pair_15_to_25():
    expected = []
    for i in range(32):
        ramp = min(max((i - 15) / 10, 0.0), 1.0)
        expected.append(160000.0 ** (-2 * i / 64) * (ramp / 16 + 1 - ramp))
    actual = frequencies(160000.0, 64, YARN)
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-14, atol=0)


@pytest.mark.parametrize("dim", [2, 4, 8])
def test_yarn_of_few_channels_stays_between_plain_and_divided(dim):
    plain = frequencies(160000.0, dim)
    actual = frequencies(160000.0, dim, YARN)
    assert (actual <= plain).all()
    assert (actual >= plain / 16 * (1 - 1e-12)).all()


def test_table_is_exact_far_out():
    rope = table(160000.0, 64, 65538, YARN)
    angle = 65537 * float(frequencies(160000.0, 64, YARN)[3])
    assert rope.cos.dtype == rope.sin.dtype == torch.float32
    assert float(rope.cos[65537, 3]) == pytest.approx(math.cos(angle), abs=1e-7)
    assert float(rope.sin[65537, 3]) == pytest.approx(math.sin(angle), abs=1e-7)
    assert rope.cos.square().add(rope.sin.square()).sub(1).abs().max() < 1e-6


def test_rotate_turns_neighbouring_pairs_of_the_last_channels(device):
    rope = table(100.0, 4, 8, device=device)
    x = torch.tensor([[7.0, 1.0, 2.0, 3.0, 4.0]], device=device)
    a, b = 5.0, 0.5  # position 5 times 1 and times 100 ** -0.5
    expected = [
        7.0,
        math.cos(a) - 2 * math.sin(a),
        2 * math.cos(a) + math.sin(a),
        3 * math.cos(b) - 4 * math.sin(b),
        4 * math.cos(b) + 3 * math.sin(b),
    ]
    actual = rotate(x, torch.tensor([5], device=device), rope)
    torch.testing.assert_close(actual.cpu(), torch.tensor([expected]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("heads", [(), (3,)])
def test_rotate_then_back_is_the_identity_and_leaves_the_other_channels(heads, device):
    rope = table(160000.0, 64, 65538, YARN, device)
    positions = torch.tensor([0, 1, 4095, 65537], dtype=torch.int32, device=device)
    x = torch.randn(4, *heads, 512, generator=torch.Generator().manual_seed(0)).to(device)
    turned = rotate(x, positions, rope)
    assert torch.equal(turned[..., :448], x[..., :448])
    assert torch.equal(turned[0], x[0])
    assert ((turned[1:, ..., 448:] - x[1:, ..., 448:]).abs().amax(-1) > 0.5).all()
    torch.testing.assert_close(rotate(turned, positions, rope, inverse=True), x, rtol=1e-5, atol=1e-5)


def test_products_depend_on_the_distance_only(device):
    rope = table(10000.0, 64, 4096, device=device)
    q, k = torch.randn(2, 1, 64, generator=torch.Generator().manual_seed(0)).to(device)
    at = lambda x, position: rotate(x, torch.tensor([position], device=device), rope)  # noqa: E731
    near, far = (at(q, 90) * at(k, 20)).sum(), (at(q, 3090) * at(k, 3020)).sum()
    torch.testing.assert_close(near, far, rtol=1e-4, atol=1e-4)
    assert abs(float((at(q, 91) * at(k, 20)).sum() - near)) > 1e-2


def test_bf16_is_rotated_in_float32(device):
    rope = table(10000.0, 64, 4096, device=device)
    x = torch.randn(5, 2, 128, generator=torch.Generator().manual_seed(0)).bfloat16().to(device)
    positions = torch.tensor([0, 7, 100, 2000, 4095], device=device)
    actual = rotate(x, positions, rope)
    assert actual.dtype == torch.bfloat16
    assert torch.equal(actual, rotate(x.float(), positions, rope).bfloat16())


def test_no_tokens(device):
    rope = table(10000.0, 64, 16, device=device)
    assert rotate(torch.zeros(0, 2, 128, device=device), torch.zeros(0, device=device), rope).shape == (0, 2, 128)
