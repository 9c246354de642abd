"""NVML and Triton's hooks as they are on a GPU."""

import torch
from locate_cases import Case

from kernels.select import locate_churn
from pipeline.evidence.timing.instruments import instruments

DEVICE = torch.device("cuda")


def test_the_device_tells_its_state():
    torch.zeros(1, device=DEVICE)
    with instruments(DEVICE, compile_anew=False) as beside:
        edge = beside.watch.edges_of("c")
        assert edge(0, -1) == ""
        edge(0, 3)
    machine = beside.watch.machine()
    assert machine.blocks == 1 and not any("not watched" in warning for warning in machine.warnings)
    assert 100 < beside.watch.clock_mhz < 4000 and machine.memory_clock_mhz[0] > 100
    assert 0 < machine.temperature_c[0] < 110 and 0 < machine.power_w[0] < 2000


def test_a_constant_that_varies_is_compiled_for_every_batch():
    cases = [Case(spans=((0, tokens),), padding=0).arguments("cuda") for tokens in (5, 6, 7, 8, 9)]
    locate_churn.Locate(block=16)(**cases[0])  # the first of all compilations takes longer than the rest
    with instruments(DEVICE, compile_anew=True) as beside:
        for arm, locate in (
            ("fixed", locate_churn.Locate(compiled_in=False, block=8)),
            ("varying", locate_churn.Locate(block=8)),
        ):
            beside.compiling.first_steps[arm] = 0.0
            with beside.compiling.seeing_launches(arm):
                for case in cases:
                    locate(**case | {"pages": cases[-1]["pages"]})
        assert "select.locate_churn.locate_kernel was compiled for varying" in beside.compiling.since_edge()
        torch.cuda.synchronize()
    fixed, varying = beside.compiling.found([], "fixed")
    assert fixed.by_kernel == {"select.locate_churn.bound_kernel": 1}
    assert varying.by_kernel == {"select.locate_churn.locate_kernel": 5}
    assert varying.seconds > fixed.seconds > 0 and varying.from_disk == varying.earlier == 0
