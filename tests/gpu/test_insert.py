import pytest
import torch
import triton
import triton.language as tl
from kernel_cases import poisoned

from kernels.insert import insert, layout_of

E4M3_TIES = torch.tensor([17.0, 19.0, 1.0625, 0.00390625, 2**-10, 3 * 2**-10, 448.0, 464.0, 465.0, -432.0])


@triton.jit
def insert_kernel(
    p_rows,
    p_cache,
    p_slots,
    WIDTH: tl.constexpr,
    NOPE: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    PAGE_STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i_row = tl.program_id(0)
    o_channel = tl.arange(0, BLOCK)
    b_row = tl.load(p_rows + i_row * WIDTH + o_channel, mask=o_channel < WIDTH, other=0.0)
    insert(b_row, p_cache, tl.load(p_slots + i_row), WIDTH, NOPE, PAGE_SIZE, PAGE_STRIDE)


def rows_of(width: int) -> torch.Tensor:
    """Random rows of every magnitude, and rows whose largest value stands at an edge of the quantisation."""
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(20_000, width, generator=generator)
    random *= 10 ** (60 * torch.rand(20_000, 1, generator=generator) - 30)
    exponents = torch.arange(-40, 41, dtype=torch.float32)
    largest = torch.cat([value * 2.0**exponents for value in (448.0, 447.0, 450.0, 1.0, 1e-4, 1.0000001e-4)])
    edges = torch.rand(len(largest), width, generator=generator) * largest[:, None]
    edges[torch.arange(len(edges)), torch.randint(0, width, (len(edges),), generator=generator)] = -largest
    ties = E4M3_TIES.repeat(-(-width // len(E4M3_TIES)))[:width] * 2.0 ** exponents[:, None]
    tiny = torch.full((3, width), 1e-40)
    tiny[1], tiny[2] = 0.0, -0.0
    return torch.cat((random, edges, ties, tiny)).to("cuda")


@pytest.mark.parametrize(
    ("layout", "page_size", "nope", "rope"),
    [
        ("fp8_ds_mla", 64, 448, 64),
        ("fp8_ds_mla", 2, 448, 64),
        ("fp8_ds_mla", 3, 64, 8),
        ("fp8_ds_mla", 1, 640, 64),
        ("fp8", 64, 64, 64),
        ("fp8", 1, 64, 8),
        ("bf16", 64, 448, 64),
        ("fp32", 3, 64, 8),
    ],
)
def test_the_same_bytes_as_the_caches_own_insert(layout, page_size, nope, rope):
    rows = rows_of(nope + rope)
    slots = torch.randperm(len(rows) + 17, device="cuda")[: len(rows)]
    pages = -(-(len(rows) + 17) // page_size)
    actual, expected = (poisoned(layout, pages, page_size, nope, rope, "cuda") for _ in range(2))
    expected.insert(slots, rows)
    constants = dict(zip(("NOPE", "PAGE_SIZE", "PAGE_STRIDE"), layout_of(actual), strict=True))
    block = triton.next_power_of_2(nope + rope)
    insert_kernel[(len(rows),)](rows, actual.data, slots, WIDTH=nope + rope, BLOCK=block, **constants)
    assert torch.equal(actual.data.view(torch.uint8), expected.data.view(torch.uint8))
