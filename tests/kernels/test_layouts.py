import struct
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from kernel_cases import poisoned

from kernels.layouts import FP8DSMLACache, FP8IndexCache, PlainCache, quantise, row_offset, slots_of, tickets_for

LAYOUTS = ["fp32", "bf16", "fp8_ds_mla", "fp8"]
ROUND_TRIP = {"fp32": 0.0, "bf16": 2**-8, "fp8_ds_mla": 2**-4, "fp8": 2**-4}


def e4m3_value(code: int) -> float:
    sign = -1.0 if code & 0x80 else 1.0
    exponent, mantissa = code >> 3 & 15, code & 7
    return sign * (mantissa * 2.0**-9 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))


def to_e4m3(x: float) -> int:
    """The nearest code; of two equally near, the one with an even mantissa."""
    distance = [(abs(abs(x) - e4m3_value(code)), code & 1, code) for code in range(0x7F)]
    return min(distance)[2] | (0x80 if np.signbit(x) else 0)


def to_bf16(x: float) -> int:
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def round_bf16(x: float) -> float:
    return struct.unpack("<f", struct.pack("<I", to_bf16(x) << 16))[0]


def exponent_of(group: list[float]) -> int:
    """The smallest e with 2 ** e >= max(amax, 1e-4) / 448."""
    target = max(max(abs(x) for x in group), 1e-4) / 448
    exponent = -30
    while 2.0**exponent < target:
        exponent += 1
    return exponent


def pack_fp8_ds_mla(page: bytearray, page_size: int, at: int, row: np.ndarray, nope: int) -> None:
    data = bytearray()
    scales = bytearray(8)
    values = [round_bf16(float(x)) for x in row[:nope]]
    for i in range(nope // 64):
        group = values[64 * i : 64 * i + 64]
        exponent = exponent_of(group)
        scales[i] = exponent + 127
        data += bytes(to_e4m3(x / 2.0**exponent) for x in group)
    for x in row[nope:]:
        data += struct.pack("<H", to_bf16(float(x)))
    page[at * len(data) : (at + 1) * len(data)] = data
    start = page_size * len(data) + at * 8
    page[start : start + 8] = scales


def pack_fp8(page: bytearray, page_size: int, at: int, row: np.ndarray) -> None:
    values = [round_bf16(float(x)) for x in row]
    exponent = exponent_of(values)
    page[at * len(row) : (at + 1) * len(row)] = bytes(to_e4m3(x / 2.0**exponent) for x in values)
    start = page_size * len(row) + at * 4
    page[start : start + 4] = struct.pack("<f", 2.0**exponent)


def difficult_rows(count: int, width: int, nope: int, seed: int) -> torch.Tensor:
    """Small NoPE beside large RoPE, an outlier, a zero group, halves between codes, amax just above a power of two."""
    rows = torch.randn(count, width, generator=torch.Generator().manual_seed(seed))
    rows[:, :nope] *= 0.1
    rows[0, 3] = 128 * 0.1
    rows[1, :64] = 0
    rows[2, :64] = torch.arange(64) * 0.5 - 16
    rows[3, 0] = 448.0
    rows[4, 0] = 450.0
    rows[5, :nope] *= 1e-6
    return rows


@pytest.mark.parametrize(("nope", "rope", "page_size"), [(448, 64, 4), (64, 8, 3), (128, 2, 1), (64, 0, 2)])
def test_fp8_ds_mla_byte_for_byte(nope, rope, page_size, device):
    cache = FP8DSMLACache.empty(8, page_size, nope, rope, device)
    pages = [bytearray(cache.data.shape[1]) for _ in range(8)]
    rows = difficult_rows(6, nope + rope, nope, seed=nope)
    slots = torch.randperm(8 * page_size, generator=torch.Generator().manual_seed(1))[:6]
    for slot, row in zip(slots.tolist(), rows.numpy(), strict=True):
        pack_fp8_ds_mla(pages[slot // page_size], page_size, slot % page_size, row, nope)
    cache.insert(slots.to(device), rows.to(device))
    assert np.array_equal(cache.data.cpu().numpy(), np.frombuffer(b"".join(pages), np.uint8).reshape(8, -1))


@pytest.mark.parametrize(("width", "page_size"), [(128, 4), (4, 3), (68, 1)])
def test_fp8_index_byte_for_byte(width, page_size, device):
    cache = FP8IndexCache.empty(8, page_size, width, device)
    pages = [bytearray(cache.data.shape[1]) for _ in range(8)]
    rows = difficult_rows(6, max(width, 64), width, seed=width)[:, :width]
    slots = torch.randperm(8 * page_size, generator=torch.Generator().manual_seed(1))[:6]
    for slot, row in zip(slots.tolist(), rows.numpy(), strict=True):
        pack_fp8(pages[slot // page_size], page_size, slot % page_size, row)
    cache.insert(slots.to(device), rows.to(device))
    assert np.array_equal(cache.data.cpu().numpy(), np.frombuffer(b"".join(pages), np.uint8).reshape(8, -1))


def test_page_bytes_of_the_real_model():
    assert FP8DSMLACache.empty(1, 64, 448, 64).data.shape == (1, 37_440)
    assert FP8DSMLACache.empty(1, 2, 448, 64).data.shape == (1, 1_728)
    assert FP8IndexCache.empty(1, 64, 128).data.shape == (1, 8_640)
    assert FP8DSMLACache.empty(1, 64, 448, 64).width == 512


@pytest.mark.parametrize("nope", [-64, 0, 63, 100])
def test_fp8_ds_mla_refuses_other_head_sizes(nope):
    with pytest.raises(ValueError, match=rf"^fp8_ds_mla: {nope} channels .* multiple of 64 .* plain layout$"):
        FP8DSMLACache.empty(2, 4, nope, 64)


@pytest.mark.parametrize("width", [0, 3, 130])
def test_fp8_index_refuses_other_widths(width):
    with pytest.raises(ValueError, match=rf"^fp8 index cache: {width} channels; .* multiple of 4 .* plain layout$"):
        FP8IndexCache.empty(2, 4, width)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("slot_dtype", [torch.int32, torch.int64])
def test_rows_come_back_from_their_slots_alone(layout, slot_dtype, device):
    cache = poisoned(layout, 5, 3, 64, 8, device)
    rows = difficult_rows(7, 72, 64, seed=0).to(device)
    slots = torch.tensor([4, -1, 14, 0, 9, -(2**31), 5], dtype=slot_dtype, device=device)
    cache.insert(slots, rows)
    written = slots >= 0
    back = cache.gather(slots)
    largest = rows.abs().amax(1, keepdim=True).expand_as(rows)
    assert ((back - rows).abs() <= ROUND_TRIP[layout] * largest)[written].all()
    assert torch.equal(back[~written], torch.zeros(2, 72, device=device))
    others = torch.tensor([s for s in range(15) if s not in slots.tolist()], device=device)
    assert cache.gather(others).isnan().all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_place_reads_zeros_from_a_poisoned_cache(layout, dtype, device):
    cache = poisoned(layout, 2, 2, 64, 8, device)
    back = cache.gather(torch.tensor([[-1, -2], [-(2**31), -1]], dtype=torch.int32, device=device), dtype)
    assert torch.equal(back, torch.zeros(2, 2, 72, dtype=dtype, device=device))
    assert cache.gather(torch.zeros(3, 0, dtype=torch.int32, device=device)).shape == (3, 0, 72)
    cache.insert(torch.full((4,), -1, device=device), torch.zeros(4, 72, device=device))
    assert (cache.data.view(torch.uint8) == 255).all()


@pytest.mark.parametrize("layout", ["bf16", "fp8_ds_mla", "fp8"])
def test_bf16_and_float32_read_the_same_numbers(layout, device):
    cache = poisoned(layout, 4, 4, 64, 8, device)
    slots = torch.arange(16, device=device)
    cache.insert(slots, difficult_rows(16, 72, 64, seed=2).to(device))
    assert torch.equal(cache.gather(slots), cache.gather(slots, torch.bfloat16).float())


@dataclass(frozen=True)
class Amplitude:
    nope: float
    rope: float
    outlier: float = 1.0


@pytest.mark.parametrize("amplitude", [Amplitude(0.1, 1.0), Amplitude(1.0, 1.0, 128.0), Amplitude(1e-3, 30.0)])
def test_one_part_never_spoils_the_scale_of_another(amplitude, device):
    rows = torch.randn(64, 512, generator=torch.Generator().manual_seed(3))
    rows[:, :448] *= amplitude.nope
    rows[:, 448:] *= amplitude.rope
    rows[:, 70] *= amplitude.outlier
    rows[:, 128:192] = 0
    cache = poisoned("fp8_ds_mla", 2, 32, 448, 64, device)
    slots = torch.arange(64, device=device)
    cache.insert(slots, rows.to(device))
    back = cache.gather(slots).cpu()
    assert torch.equal(back[:, 128:192], torch.zeros(64, 64))
    assert torch.equal(back[:, 448:], rows[:, 448:].bfloat16().float())
    groups, exact = back[:, :448].unflatten(1, (7, 64)), rows[:, :448].unflatten(1, (7, 64))
    assert ((groups - exact).abs().amax(2) <= 2**-4 * exact.abs().amax(2)).all()


def test_scales_are_the_smallest_power_of_two_that_fits():
    rows = torch.randn(4096, 64, generator=torch.Generator().manual_seed(4)) * torch.logspace(-6, 30, 4096)[:, None]
    values, scales = quantise(rows, 64)
    mantissa, _ = torch.frexp(scales)
    amax = rows.bfloat16().float().abs().amax(1).clamp(min=1e-4)
    assert (mantissa == 0.5).all()
    assert (scales[:, 0] * 448 >= amax).all() and (scales[:, 0] * 224 < amax).all()
    assert values.float().isfinite().all()


@pytest.mark.parametrize("power", range(-20, 100, 7))
def test_an_amax_of_448_times_a_power_of_two_is_not_rounded_up(power):
    values, scales = quantise(torch.full((1, 64), 448 * 2.0**power), 64)
    assert float(scales) == 2.0**power
    assert (values.float() == 448).all()


def test_offsets_are_64_bit():
    slots = torch.tensor([7768 * 64 + 3], dtype=torch.int32)
    assert row_offset(slots, 64, 480 * 576, 576).tolist() == [2_147_696_640 + 3 * 576]
    huge = FP8DSMLACache(torch.empty(8000, 480 * 576, dtype=torch.uint8, device="meta"), 64, 448, 64)
    data_at, scales_at = huge._offsets(slots)
    assert data_at.tolist() == [2_147_696_640 + 3 * 576]
    assert scales_at.tolist() == [2_147_696_640 + 64 * 576 + 3 * 8]
    index = FP8IndexCache(torch.empty(8000, 480 * 576, dtype=torch.uint8, device="meta"), 64, 128)
    assert index._offsets(slots)[1].tolist() == [2_147_696_640 + 64 * 128 + 3 * 4]


def test_slots_of_follows_the_block_table_and_keeps_64_bits(device):
    block_table = torch.tensor([[5, 2**28], [3, 1]], dtype=torch.int32, device=device)
    rows = torch.tensor([[-1, 0, 3, 4, 63 + 4], [-(2**31), 1, 2, 6, 7]], dtype=torch.int32, device=device)
    request = torch.tensor([[0], [1]], dtype=torch.int32, device=device)
    slots = slots_of(block_table, request, rows.clamp(max=7), 4)
    assert slots.tolist() == [[-1, 20, 23, 2**30, 2**30 + 3], [-1, 13, 14, 6, 7]]
    wide = slots_of(torch.tensor([[0, 2**30]], dtype=torch.int32), torch.tensor([0]), torch.tensor([64 + 5]), 64)
    assert wide.tolist() == [2**36 + 5]


def test_plain_rows_are_stored_as_they_are(device):
    cache = PlainCache.empty(3, 2, 5, torch.float32, device)
    rows = torch.randn(2, 5, device=device)
    cache.insert(torch.tensor([5, 2], device=device), rows)
    assert torch.equal(cache.data[2, 1], rows[0]) and torch.equal(cache.data[1, 0], rows[1])
    assert (cache.page_size, cache.width) == (2, 5)


@pytest.mark.parametrize("layout", ["fp8_ds_mla", "fp8", "fp32"])
def test_a_ticket_for_every_slot_whatever_the_cache_holds(layout, device):
    tickets = tickets_for(poisoned(layout, 5, 3, 64, 8, device))
    assert tickets.dtype == torch.int32 and tickets.device.type == device
    assert tickets.tolist() == [0] * 15
