import time

import torch

from pipeline.evidence.clock import ColdClock, CpuClock, CudaClock, clock_for, last_level_cache


def test_a_call_takes_as_long_as_it_takes_and_returns_what_it_returns():
    seconds, result = CpuClock()(lambda: time.sleep(0.02) or "there")
    assert result == "there"
    assert 0.02 <= seconds < 1.0


def test_the_clock_costs_next_to_nothing():
    clock = CpuClock()
    assert min(clock(lambda: None)[0] for _ in range(100)) < 2e-5


def test_the_device_picks_the_clock():
    assert clock_for(torch.device("cpu")) == CpuClock()
    assert clock_for(torch.device("cuda:1")) == CudaClock(torch.device("cuda:1"))


def test_a_cold_clock_overwrites_before_each_call_outside_its_window():
    log = []

    def clock(call):
        log.append("start")
        result = call()
        log.append("stop")
        return 1.0, result

    cold = ColdClock(clock, lambda: log.append("overwrite"))
    assert cold(lambda: log.append("call") or "it") == (1.0, "it")
    cold(lambda: None)
    assert log == ["overwrite", "start", "call", "stop", "overwrite", "start", "stop"]


def test_cold_on_a_cpu_writes_more_than_its_caches_hold():
    cold = clock_for(torch.device("cpu"), cold=True)
    assert isinstance(cold, ColdClock) and cold.clock == CpuClock()
    [words] = [cell.cell_contents for cell in cold.flush.__closure__]
    before = words[[0, -1]].clone()
    cold(lambda: None)
    assert words.nbytes > last_level_cache()
    assert (words[[0, -1]] == before + 1).all()


def test_the_last_level_cache_is_the_largest_that_the_system_tells(tmp_path):
    for number, size in enumerate(["32K", "1024K\n", "33M"]):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(size)
    assert last_level_cache(tmp_path) == 33 << 20
    assert last_level_cache(tmp_path / "nowhere") == 64 << 20
