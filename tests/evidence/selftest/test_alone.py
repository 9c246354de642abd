import pytest
import torch

from pipeline.engine.arms.delay import CpuWait
from pipeline.evidence.selftest import alone
from pipeline.evidence.selftest.alone import cycles_per_second, seconds_alone

CPU = torch.device("cpu")


def test_a_disturbance_of_a_busy_wait_is_no_part_of_it(monkeypatch):
    now, calls = [0.0], iter(range(10_000))

    def clock(wait):
        start = now[0]
        wait()
        now[0] += 100.0 if next(calls) % 10 else 0.0
        return now[0] - start, None

    def wait(seconds: float):
        def passes() -> None:
            now[0] += seconds

        return passes

    monkeypatch.setattr(alone, "clock_for", lambda device: clock)
    short, long, longest = seconds_alone([wait(0.001), wait(0.004), wait(0.005)], CPU)
    assert [short, long, longest] == pytest.approx([0.001, 0.004, 0.005], abs=1e-9)


@pytest.mark.xdist_group("cores")
def test_a_busy_wait_lasts_what_it_is_told():
    nothing, wait = seconds_alone([CpuWait(0.0), CpuWait(2e-4)], CPU)
    assert 0 <= nothing < 2e-5
    assert 2e-4 <= wait < 2.2e-4


def test_a_cpu_has_no_cycles_to_spin():
    assert cycles_per_second(CPU) is None
