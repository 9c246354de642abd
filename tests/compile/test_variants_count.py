"""How many forms of each kernel a decode has compiled: told by Triton's own key of a launch, on no GPU."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from inspect import getmodule
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from compiling import TARGETS
from hydra import compose, initialize_config_dir
from triton import knobs
from triton.runtime import driver

from kernels.attend import hopper_heads
from kernels.contracts import Pages, Rows, Scored
from kernels.select import locate_churn, locate_constexpr, locate_runtime
from kernels.select.shortcut_row import Shortcut
from pipeline.door.commandline import CONF
from pipeline.door.draft import draft
from pipeline.door.stages import stages
from pipeline.engine.arms.bench import Arms, bench
from pipeline.engine.layer import Prefill, Stages
from pipeline.engine.select import Select
from pipeline.engine.stack import blueprint
from pipeline.schema import Variant
from pipeline.work.schedule import schedule
from pipeline.work.workload import Case, Request
from tests.compose import config

VARIANTS = sorted(path.stem for path in (CONF / "variant").glob("*.yaml"))
FIRST, LAST = 8, 400  # lengths
MOST = 16  # forms of a kernel, whatever the number of steps
SEEN = {
    *(
        "ingest.fused",
        "compress.single",
        "select.query_fused",
        "select.score_paged",
        "select.topk_radix",
        "select.fill",
    ),
    *(
        "select.locate_runtime",
        "select.locate_constexpr",
        "select.locate_batched",
        "select.locate_fused",
        "cover.fused",
    ),
    *("attend.decode_split", "attend.hopper_keys", "attend.hopper_heads", "emit.fused", "norm.fused", "project.fp8"),
}
GROUPS = (Select, Prefill)
Keys = dict[str, set[str]]  # kernel -> its keys


class AnyH200:
    """A driver that Triton asks for a target and nothing else."""

    def get_current_target(self):
        return TARGETS["sm_90"]

    def get_current_device(self):
        return "H200"

    def get_current_stream(self, device):
        return None


@pytest.fixture
def keys(monkeypatch) -> Keys:
    """Of every kernel that is launched. Nothing is compiled, nothing runs, and outputs are what memory held."""
    found = defaultdict(set)

    def on_new(*, key: str, fn: Any, **_: Any) -> bool:
        found[f"{fn.module}.{fn.name}"].add(key)
        return True

    monkeypatch.setattr(driver, "_active", AnyH200())
    monkeypatch.setattr(knobs.runtime, "jit_cache_hook", on_new)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(multi_processor_count=132))
    return found


@dataclass(frozen=True)
class Every:
    """A stage that has all its implementations launch, and returns what the first does."""

    implementations: tuple[Any, ...]

    def __call__(self, *arguments: Any) -> Any:
        first, *_ = [each(*arguments) for each in self.implementations]
        return first

    def __getattr__(self, name: str) -> Any:
        return getattr(self.implementations[0], name)


@cache
def variants() -> dict[str, Stages]:
    """As on a machine with a GPU."""
    asked = [f"+variant@arms.of_{name}={name}" for name in VARIANTS]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        held = draft(compose("config", ["+exp=short_ctx", "model=tiny", *asked]))
    return {name: stages(held.sound(Variant, "arms", f"of_{name}")) for name in VARIANTS}


def parts(held: Any, where: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for field in fields(held):
        value, place = getattr(held, field.name), (*where, field.name)
        yield from parts(value, place) if isinstance(value, GROUPS) else [(place, value)]


def with_parts(held: Any, made: dict[tuple[str, ...], Any], where: tuple[str, ...] = ()) -> Any:
    changed = {}
    for field in fields(held):
        value, place = getattr(held, field.name), (*where, field.name)
        changed[field.name] = with_parts(value, made, place) if isinstance(value, GROUPS) else made.get(place, value)
    return replace(held, **changed)


def launches(place: tuple[str, ...], stage: Any) -> bool:
    """Kernels of our own, on no GPU. Projections multiply on one."""
    if getattr(stage, "device", None) != "cuda" or hasattr(stage, "missing") or place == ("project",):
        return False
    return "triton" in Path(getmodule(type(stage)).__file__).read_text()


def all_kernels() -> Stages:
    """The stages of the Triton variant, each with all others of its kind; long rows are scored."""
    heads = hopper_heads.Attend()
    found: dict[tuple[str, ...], dict[Any, Any]] = defaultdict(dict, {("attend",): {type(heads): heads}})
    for variant in (variants()["triton"], *variants().values()):
        for place, stage in parts(variant):
            if launches(place, stage):
                found[place][type(stage), repr(stage)] = stage
    every = {place: Every(tuple(each.values())) for place, each in found.items()}
    return with_parts(variants()["triton"], every | {("select", "shortcut"): Shortcut()})


def decode(run: Stages, batch: int) -> None:
    """Each request one token longer than the one before it: in some steps only some rows are scored."""
    steps = LAST - FIRST + 1
    made = config("+exp=short_ctx", "model=tiny", "model.topk=16", *("engine.device=cpu", "engine.dtype=bf16"))
    made = replace(made, engine=replace(made.engine, layers=3))
    requests = tuple(Request(0.0, FIRST - 1 + more, FIRST + more, steps) for more in range(batch))
    planned = schedule(requests, batch, 8192, True)
    case = Case("decode", "decode", max(request.context for request in requests), requests, "digest")
    arms = Arms(blueprint(made, case.context), {"all": run}, stages(made.reference))
    [arm] = bench(made, case, planned, arms).arms
    for step in range(steps):
        arm.prepare(step)
        arm.step(step)


def assert_bounded(keys: Keys) -> None:
    """By what knobs, integer classes (1, divisible by 16, other) and blocks of a power of two account for."""
    assert keys
    churning = {kernel: len(each) for kernel, each in keys.items() if len(each) > MOST}
    assert not churning, f"forms over {LAST - FIRST + 1} steps: {churning}"


def test_a_decode_has_few_forms_of_each_kernel_compiled_however_long_it_is(keys):
    run = all_kernels()
    projections = [variant.project for variant in variants().values() if hasattr(variant.project, "quantised")]
    for batch in (1, 3, 16, 17):
        decode(run, batch)
        for stage in projections:
            stage.quantised(torch.empty(batch, 512, dtype=torch.bfloat16))
    assert_bounded(keys)
    assert {f"kernels.{module}" for module in SEEN} <= {kernel.rpartition(".")[0] for kernel in keys}


@triton.jit
def counting_kernel(p_out, tokens, LENGTH: tl.constexpr):
    tl.store(p_out, tokens + LENGTH)


@triton.jit
def counted_kernel(p_out, tokens, length):
    tl.store(p_out, tokens + length)


def test_a_length_that_is_compiled_in_is_found(keys):
    out = torch.empty(16, dtype=torch.int32)
    for length in range(FIRST, LAST + 1):
        for batch in (1, 3, 16, 17):
            counted_kernel[(1,)](out, batch, length)
    assert_bounded(keys)
    assert {name.rpartition(".")[2]: len(each) for name, each in keys.items()} == {"counted_kernel": 6}
    for length in range(FIRST, LAST + 1):
        counting_kernel[(1,)](out, 3, length)
    with pytest.raises(AssertionError, match=f"counting_kernel': {LAST - FIRST + 1}"):
        assert_bounded(keys)


@pytest.mark.parametrize(
    ("locate", "forms"),
    [(locate_constexpr.Locate(), 1), (locate_runtime.Locate(), 1), (locate_churn.Locate(), 40),
     (locate_churn.Locate(compiled_in=False), 1)],
)  # fmt: skip
def test_only_what_varies_churns(keys, locate, forms):
    for tokens in range(1, 41):
        chosen, numbers = torch.zeros(tokens, 16, dtype=torch.int32), torch.zeros(tokens, dtype=torch.int32)
        pages = Pages(torch.zeros(tokens, 7, dtype=torch.int32), 64, numbers.long())
        locate(chosen, Scored(None), Rows(numbers, numbers, numbers == 0), pages, 4, 16)
    assert [len(each) for each in keys.values()] == [forms]
