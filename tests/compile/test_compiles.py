"""What is counted when kernels are really compiled, on a driver that loads and launches nothing."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
import triton
import triton.language as tl
from compiling import TARGETS
from triton import knobs
from triton.runtime import driver

from pipeline.evidence.timing.clock import CpuClock
from pipeline.evidence.timing.compiles import Compiling, Counted
from pipeline.evidence.timing.measure import Design, Hooks, Rounds, measure
from pipeline.evidence.timing.watch import Watch


@triton.jit
def adding_kernel(p_out, count):
    tl.store(p_out, count)


@triton.jit
def fixed_kernel(p_out, COUNT: tl.constexpr):
    tl.store(p_out, COUNT)


NAME = f"{__name__}.adding_kernel"


class Utilities:
    def __init__(self):
        self.handles = iter(range(1, 1000))

    def get_device_properties(self, device):
        return {"max_shared_mem": 1 << 18}

    def load_binary(self, *_):
        return "module", next(self.handles), 8, 0, 1024


class Launcher:
    def __init__(self, source, metadata):
        pass

    def __call__(self, x, y, z, stream, function, packed, launch_metadata, on_enter, on_exit, *arguments):
        on_enter(launch_metadata)


class Device:
    """A Hopper GPU in all that Triton asks before a launch."""

    launcher_cls = Launcher

    def __init__(self):
        self.utils = Utilities()

    def get_current_target(self):
        return TARGETS["sm_90"]

    def get_current_device(self):
        return self

    def get_current_stream(self, device):
        return 0


@pytest.fixture(autouse=True)
def device(monkeypatch, tmp_path):
    monkeypatch.setattr(driver, "_active", Device())
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@dataclass
class Launching:
    """Launches a kernel with one number a step."""

    name: str
    numbers: tuple[int, ...]
    fixed: bool = False
    repeats = 1
    out = torch.empty(16, dtype=torch.int32)

    def prepare(self, step: int) -> None:
        pass

    def replays(self, step: int) -> bool:
        return False

    def step(self, step: int) -> None:
        kernel = fixed_kernel if self.fixed else adding_kernel
        kernel[(1,)](self.out, self.numbers[step])


def rounds(compiling: Compiling, *arms: Launching, warmup: int, count: int = 3) -> tuple[Rounds, Watch]:
    watch = Watch(cpu=lambda: SimpleNamespace(load=None, mhz=None), faults=[compiling.since_edge])
    recorded = Rounds(len(arms[0].numbers), len(arms))
    counted = [Counted(arm, compiling) for arm in arms]
    design, hooks = Design(count, warmup, None, seed=0), Hooks(at_block_edge=watch.edges_of("c"))
    measure(counted, recorded, design, CpuClock(), hooks)
    return recorded, watch


def found(compiling: Compiling) -> dict:
    return {each.arm: each for each in compiling.found([], "first")}


@pytest.mark.parametrize("numbers", [(1, 16, 5), (3, 1, 48, 1, 7, 4096)])
def test_a_warm_up_over_the_steps_that_are_timed_covers_every_integer_class(numbers):
    """1, divisible by 16, and other: three variants, and none is left for a timed window."""
    with Compiling().listening() as compiling:
        recorded, watch = rounds(compiling, Launching("first", numbers), warmup=1)
    assert not any(recorded.void) and watch.machine().void_blocks == 0
    assert len(compiling._used["first"]) == 3


def test_a_block_in_which_a_kernel_is_compiled_is_void_and_names_it():
    with Compiling().listening() as compiling:
        recorded, watch = rounds(compiling, Launching("first", (1, 16, 5)), warmup=0)
    assert recorded.void == [f"{NAME} was compiled for first", "", "", ""]
    assert watch.machine().warnings == (f"void: 1 of 4 blocks of c: {NAME} was compiled for first",)


def test_a_class_that_the_warm_up_did_not_see_is_noticed():
    arm = Launching("first", (3, 5))
    with Compiling().listening() as compiling:
        rounds(compiling, arm, warmup=1)
        arm.numbers = (3, 16)
        recorded, _ = rounds(compiling, arm, warmup=0)
    assert recorded.void == [f"{NAME} was compiled for first", "", "", ""]


def test_a_kernel_that_is_read_from_disk_in_a_block_makes_it_void_too():
    def once(**how) -> Rounds:
        driver._active = Device()
        with Compiling().listening(**how) as compiling:
            return rounds(compiling, Launching("first", (3,)), warmup=0)[0]

    assert once().void[0] == f"{NAME} was compiled for first"
    assert once().void[0] == f"{NAME} was loaded from disk for first"
    assert once(anew=True).void[0] == f"{NAME} was compiled for first"
    assert not knobs.compilation.always_compile and knobs.compilation.listener is None


def test_variants_count_for_every_arm_that_launches_them():
    first, other = Launching("first", (1, 16, 5)), Launching("other", (5, 16, 7), fixed=True)
    again = Launching("again", (1, 16, 9))
    with Compiling().listening() as compiling:
        for arm in (first, other, again):
            with compiling.seeing_launches(arm.name):
                compiling.first_step(arm, lambda: None)
                for step in range(3):
                    arm.step(step)
    told = found(compiling)
    assert list(told) == ["first", "other", "again"]
    assert told["first"].by_kernel == told["again"].by_kernel == {NAME: 3}
    assert told["other"].by_kernel == {f"{__name__}.fixed_kernel": 3}
    assert told["first"].seconds == told["again"].seconds > 0.01
    assert told["first"].first_step > told["again"].first_step > 0
    assert told["first"].break_even_launches is None and told["again"].break_even_launches == 0


def test_what_an_earlier_run_of_the_process_compiled_is_told_apart():
    arm = Launching("first", (3,))
    with Compiling().listening():
        arm.step(0)
    with Compiling().listening() as compiling, compiling.seeing_launches("first"):
        compiling.first_step(arm, lambda: None)
    [told] = compiling.found([], "first")
    assert (told.variants, told.earlier, told.seconds) == (0, 1, 0)


def test_launches_are_seen_nowhere_else():
    with Compiling().listening() as compiling:
        counted = Counted(Launching("first", (3,)), compiling)
        counted.prepare(0)
        assert not knobs.runtime.launch_enter_hook.calls
        assert counted.step == counted.arm.step and (counted.name, counted.repeats) == ("first", 1)
    assert not knobs.runtime.kernel_load_end_hook.calls
