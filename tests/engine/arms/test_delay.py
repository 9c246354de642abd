import time

import pytest

from pipeline.engine.arms.delay import CYCLES_AT_LEAST, CpuWait, CudaWait, Delayed, waiting


class Stage:
    knob = 7

    def __init__(self, log: list[str]):
        self.log = log

    def __call__(self, *arguments: int) -> int:
        self.log.append("stage")
        return sum(arguments)


def test_a_delayed_stage_gives_what_the_stage_gives_and_waits_afterwards():
    log: list[str] = []
    stage = Delayed(Stage(log), lambda: log.append("wait"))
    assert stage(1, 2) == 3
    assert log == ["stage", "wait"]
    assert stage.knob == 7


@pytest.mark.xdist_group("cores")
def test_a_wait_on_a_cpu_ends_at_its_deadline():
    taken = []
    for _ in range(20):
        start = time.perf_counter()
        CpuWait(0.002)()
        taken.append(time.perf_counter() - start)
    assert min(taken) >= 0.002
    assert min(taken) < 0.0021


@pytest.mark.parametrize("seconds", [0.0, 2e-6, 1e-4])
def test_waits_on_a_gpu_differ_by_what_is_asked_and_by_nothing_else(seconds):
    assert waiting(seconds, 2e9) == CudaWait(CYCLES_AT_LEAST + round(2e9 * seconds))
    assert waiting(seconds, None) == CpuWait(seconds)
