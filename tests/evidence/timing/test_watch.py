from dataclasses import replace
from itertools import count, cycle
from math import isnan

import pytest
import torch

from pipeline.evidence.timing import watch as module
from pipeline.evidence.timing.nvml import GpuReading, NotWatched
from pipeline.evidence.timing.watch import CpuReading, Watch, read_cpu, watch

COOL = GpuReading(1980, 3201, 40, 300.0, (), "", {"power cap": 7})
AT_REST = CpuReading(0.4, 2400.0)
HOT = replace(COOL, sm_clock_mhz=1200, temperature_c=88, throttled_by=("temperature (hardware)",))


def watching(*readings: GpuReading, cpu: CpuReading = AT_REST, **fields) -> Watch:
    told = cycle(readings)
    return Watch(lambda: next(told), lambda: cpu, cores=2, now=count(0, 1000).__next__, **fields)


def blocks(watch: Watch, number: int, case: str = "c") -> list[str]:
    edge = watch.edges_of(case)
    edge(0, -1)
    return [edge(one, one) for one in range(number)]


def test_a_hundredth_of_a_blocks_time_held_back_is_tolerated():
    watch = watching(*held_back(0, 10, 21))
    assert blocks(watch, 2) == ["", "the device was throttled by power cap"]


def test_a_block_with_a_throttled_edge_is_void():
    watch = watching(COOL, COOL, HOT, COOL, COOL)
    reason = "the device was throttled by temperature (hardware)"
    assert blocks(watch, 4) == ["", reason, reason, ""]
    machine = watch.machine()
    assert (machine.blocks, machine.void_blocks) == (4, 2)
    assert machine.throttled_by == ("temperature (hardware)",)
    assert machine.warnings == (f"void: 2 of 4 blocks of c: {reason}",)


def held_back(*nanoseconds: int) -> list[GpuReading]:
    return [replace(COOL, held_back={"power cap": count, "temperature": 0}) for count in nanoseconds]


def test_a_block_is_void_if_the_device_was_throttled_between_its_edges():
    watch = watching(*held_back(100, 100, 250, 250))
    reason = "the device was throttled by power cap"
    assert blocks(watch, 3) == ["", reason, ""]
    assert watch.machine().throttled_by == ("power cap",)
    assert watch.machine().warnings == (f"void: 1 of 3 blocks of c: {reason}",)


def test_at_the_power_cap_nearly_always_is_no_disturbance_but_told():
    capped = replace(COOL, throttled_by=("power cap",))
    watch = watching(*[capped] * 3, *[COOL] * 2, capped)
    reason = "the device was throttled by power cap"
    assert blocks(watch, 2, "a") == [reason] * 2
    assert blocks(watch, 2, "b") == ["", reason]
    machine = watch.machine()
    assert (machine.blocks, machine.void_blocks) == (4, 1)
    assert machine.warnings == (
        f"{reason} nearly always in a: so fast it runs this load",
        f"void: 1 of 2 blocks of b: {reason}",
    )


def test_what_the_device_counted_before_a_case_voids_nothing_of_it():
    watch = watching(*held_back(0, 0, 900, 900))
    assert blocks(watch, 1, "a") == blocks(watch, 1, "b") == [""]
    assert watch.machine().throttled_by == ()


def test_blocks_are_counted_for_each_case_and_only_those_of_the_attempt_that_counts():
    faults = iter(["", "x", "x", "x", "", "", "x", "", "x", "x", "", "x"])
    watch = watching(COOL, faults=[lambda: next(faults)])
    assert blocks(watch, 3, "a") == ["x"] * 3
    assert blocks(watch, 2, "a") == ["", "x"], "begun anew"
    assert blocks(watch, 1, "a@stages") == ["x"]
    assert blocks(watch, 2, "b") == ["", "x"]
    machine = watch.machine()
    assert (machine.blocks, machine.void_blocks) == (4, 2), "of cases"
    assert machine.warnings == ("void: 1 of 2 blocks of a, 1 of 1 blocks of a@stages, 1 of 2 blocks of b: x",)


def test_a_device_that_does_not_tell_whether_it_is_throttled_is_not_called_free_of_it():
    mute = watching(replace(COOL, throttled_by=None, held_back={}))
    assert blocks(mute, 1) == [""]
    assert mute.machine().throttled_by is None
    assert mute.machine().warnings == ("the device does not tell whether it was throttled",)
    edges = watching(replace(COOL, held_back={}))
    blocks(edges, 1)
    assert edges.machine().throttled_by == ()
    assert edges.machine().warnings == (
        "the device does not count how long it was throttled: only the edges of blocks were seen",
    )


def test_an_edge_before_a_case_voids_nothing_of_the_case_before():
    watch = watching(COOL, COOL, HOT, COOL, COOL)
    assert blocks(watch, 1) == [""]
    assert blocks(watch, 1) == ["the device was throttled by temperature (hardware)"]


def test_the_range_of_what_was_read():
    watch = watching(COOL, replace(COOL, sm_clock_mhz=1965, power_w=450.5, temperature_c=51))
    blocks(watch, 3)
    machine = watch.machine()
    assert machine.sm_clock_mhz == (1965, 1980) and machine.memory_clock_mhz == (3201, 3201)
    assert machine.temperature_c == (40, 51) and machine.power_w == (300.0, 450.5)
    assert machine.load == (0.4, 0.4) and machine.cpu_mhz == (2400.0, 2400.0)
    assert machine.warnings == ()


def test_the_clock_of_a_case_is_the_median_of_its_own_edges():
    readings = [replace(COOL, sm_clock_mhz=clock) for clock in (1000, 1000, 1900, 1980, 1970)]
    watch = watching(*readings)
    blocks(watch, 1)
    assert watch.clock_mhz == 1000
    blocks(watch, 2)
    assert watch.clock_mhz == 1970


def test_other_faults_void_a_block_too():
    faults = iter(["in the warm-up", "", "select.a was compiled for b", ""])
    watch = watching(COOL, faults=[lambda: next(faults)])
    assert blocks(watch, 3) == ["", "select.a was compiled for b", ""]
    assert watch.machine().warnings == ("void: 1 of 3 blocks of c: select.a was compiled for b",)


def test_another_process_is_a_warning():
    watch = watching(COOL, replace(COOL, others="another process is on the device"))
    assert blocks(watch, 3) == ["", "", ""]
    assert watch.machine().warnings == ("another process is on the device",)


@pytest.mark.parametrize(("load", "warned"), [(None, False), (2.4, False), (2.6, True), (9.0, True)])
def test_more_processes_than_cores_are_a_warning(load, warned):
    watch = watching(COOL, cpu=CpuReading(load, None))
    blocks(watch, 2)
    machine = watch.machine()
    assert bool(machine.warnings) == warned and machine.cpu_mhz is None
    assert not warned or "2 cores" in machine.warnings[0]


def test_a_device_that_is_not_watched_is_a_warning(monkeypatch):
    def refuse(uuid, held):
        raise NotWatched("nvidia-ml-py is not installed")

    class Properties:
        uuid = "0-0"

    monkeypatch.setattr(module, "open_gpu", refuse)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    found = watch(torch.device("cuda"))
    assert blocks(found, 2) == ["", ""] and isnan(found.clock_mhz)
    assert found.machine().warnings[0] == "the device's clocks were not watched: nvidia-ml-py is not installed"
    assert found.machine().sm_clock_mhz is None


def test_a_device_without_clocks_is_a_warning():
    watch = watching(replace(COOL, sm_clock_mhz=None))
    blocks(watch, 1)
    assert watch.machine().warnings == ("the device does not tell its clocks: none were watched",)


def test_a_cpu_has_no_clock_of_a_device():
    found = watch(torch.device("cpu"))
    assert blocks(found, 1) == [""] and isnan(found.clock_mhz)
    assert not any("not watched" in warning for warning in found.machine().warnings)


def test_the_cpu_as_linux_tells_of_it(tmp_path):
    (tmp_path / "loadavg").write_text("1.75 0.9 0.5 2/345 6789\n")
    (tmp_path / "cpuinfo").write_text("processor : 0\ncpu MHz\t\t: 2100.5\nprocessor : 1\ncpu MHz : 2300.5\n")
    assert read_cpu(tmp_path, tmp_path / "none") == CpuReading(1.75, 2200.5)
    for core, kilohertz in enumerate((3_000_000, 3_400_000, 800_000)):
        file = tmp_path / f"cpu{core}" / "cpufreq" / "scaling_cur_freq"
        file.parent.mkdir(parents=True)
        file.write_text(f"{kilohertz}\n")
    assert read_cpu(tmp_path, tmp_path) == CpuReading(1.75, 3000.0)
    assert read_cpu(tmp_path / "none", tmp_path / "none") == CpuReading(None, None)
