from dataclasses import replace

import pytest
import torch

from pipeline.engine import device
from pipeline.engine.device import Hardware, hardware, resolved
from tests.compose import config

AUTO = replace(config("+exp=short_ctx").engine, device="auto", dtype="auto", graph="off")


@pytest.fixture
def machine(monkeypatch):
    """A machine with or without a GPU and bf16."""

    def has(cuda: bool, bf16: bool = True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(device, "hardware", lambda name: Hardware("H200" if name == "cuda" else None, None, bf16))

    return has


@pytest.mark.parametrize(
    ("cuda", "bf16", "expected"),
    [
        (True, True, ("cuda", "bf16")),
        (True, False, ("cuda", "fp32")),
        (False, True, ("cpu", "bf16")),
        (False, False, ("cpu", "fp32")),
    ],
)
def test_auto(machine, cuda, bf16, expected):
    machine(cuda, bf16)
    found = resolved(AUTO)
    assert (found.device, found.dtype) == expected
    assert replace(found, device="auto", dtype="auto") == AUTO
    assert resolved(found) == found


def test_what_is_named_stays(machine):
    machine(cuda=True, bf16=True)
    asked = replace(AUTO, device="cpu", dtype="fp32")
    assert resolved(asked) == asked
    machine(cuda=True, bf16=False)
    assert resolved(replace(asked, dtype="bf16")).dtype == "bf16"
    assert resolved(replace(AUTO, graph="full")).device == "cuda"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device": "cuda"}, "engine.device=cuda: .*; allowed here: cpu, auto"),
        ({"graph": "full"}, "engine.graph=full: .* need a CUDA device, .*use engine.graph=off"),
        ({"graph": "both"}, "engine.graph=both: .* need a CUDA device, .*use engine.graph=off"),
    ],
)
def test_what_is_not_there(machine, changes, message):
    machine(cuda=False)
    with pytest.raises(ValueError, match=message):
        resolved(replace(AUTO, **changes))


def test_this_cpu_has_no_gpu_and_knows_its_bf16():
    found = hardware("cpu")
    assert (found.gpu, found.driver) == (None, None)
    assert isinstance(found.bf16, bool)
