import pytest
import torch

from pipeline.evidence.breakdown import roof as roof_module
from pipeline.evidence.breakdown.roof import measured_roof


def test_rates_are_work_over_the_fastest_call(monkeypatch):
    """The first call of each limit does not count."""
    taken = iter([1.0, 4.0, 2.0, 3.0, 1.0, 9.0, 9.0, 8.0, 1.0, 7.0, 6.0, 6.5])
    monkeypatch.setattr(roof_module, "clock_for", lambda device: lambda call, ahead=False: (next(taken), call()))
    monkeypatch.setattr(roof_module, "SECONDS", 0.0)
    found = measured_roof(torch.device("cpu"), torch.float32, graphs=False)
    assert found.copy_bytes_per_second == pytest.approx(2 * (128 << 20) / 2.0), "read plus write"
    assert found.matrix_flops_per_second == pytest.approx(2 * 1024**3 / 8.0)
    assert found.launch == 6.0
    assert found.fp8_flops_per_second is None


def test_on_this_machine(monkeypatch):
    monkeypatch.setattr(roof_module, "SECONDS", 0.01)
    found = measured_roof(torch.device("cpu"), torch.float32, graphs=False)
    assert 1e8 < found.copy_bytes_per_second < 1e13
    assert 1e8 < found.matrix_flops_per_second < 1e15
    assert 0 < found.launch < 1e-2
