"""One Flash layer at full dimensions in plain torch: how fast it is here, and that its outputs keep their size."""

import os
import time
from dataclasses import replace

import pytest
import torch

from pipeline.engine.device import resolved
from tests.engine.runnable import arm_on, asked

FLASH = ("model=v4_flash", "engine=default", "engine.device=cpu")
DTYPE = resolved(replace(arm_on([asked(0, 1)]).engine, device="cpu", dtype="auto")).dtype
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def all_cores():
    torch.set_num_threads(os.cpu_count() or 1)
    yield
    torch.set_num_threads(1)


def seconds(arm, step: int, times: int) -> float:
    """Best of a few."""
    found = []
    for _ in range(times):
        arm.prepare(step)
        start = time.perf_counter()
        arm.step(step)
        found.append(time.perf_counter() - start)
    return min(found)


@pytest.mark.parametrize("variant", ["never", "row"])
def test_prefill_of_2048_tokens_through_a_csa_layer(variant):
    arm = arm_on([asked(0, 2048)], *FLASH, f"engine.dtype={DTYPE}", variant=variant, budget=2048)
    assert len(arm.plan.inputs) == 1
    assert seconds(arm, 0, 2) < 15


@pytest.mark.parametrize("context", [2048, 8192])
def test_a_decode_step_of_four_requests_through_a_csa_layer(context):
    arm = arm_on([asked(context - 1, context)] * 4, *FLASH, f"engine.dtype={DTYPE}", variant="never")
    assert [inputs.tokens for inputs in arm.plan.inputs] == [4]
    assert seconds(arm, 0, 5) < 0.5


@pytest.mark.parametrize("layout", ["plain", "default"])
@pytest.mark.parametrize("kind", ["swa", "csa", "hca"])
def test_outputs_keep_their_size(kind, layout):
    requests = [asked(0, 600), asked(2999, 3000, 2)]
    arm = arm_on(requests, *FLASH, f"engine={layout}", f"engine.dtype={DTYPE}", f"engine.layers={kind}", budget=1024)
    for step in range(len(arm.plan.inputs)):
        arm.prepare(step)
        [output] = arm.step(step)
        rows = output.y.float().square().mean(1).sqrt()
        assert rows.isfinite().all()
        assert float(rows.min()) > 0.05 and float(rows.max()) < 20, (step, rows)
        assert torch.isfinite(output.y).all()
