"""Every file of conf/ is a test case by existing."""

import re
import shlex
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
import torch
import yaml
from hydra import compose, initialize_config_dir

from pipeline.door.commandline import CONF, CommandLine
from pipeline.door.config import faults
from pipeline.door.draft import draft
from pipeline.door.scalars import misread
from pipeline.door.variants import problems
from pipeline.schema import Model, Variant
from pipeline.work.workload import contexts
from tests.compose import ON_GPU, config

FILES = sorted(CONF.rglob("*.yaml"))
PEERS = ("deepgemm", "flashmla", "peers", "topk_vllm")
NO_PEERS = "is not installed; pip install vllm"
EXPERIMENTS = sorted(path.stem for path in (CONF / "exp").iterdir())


def all_faults(overrides: list[str], multirun: bool = False) -> list[str]:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        line = CommandLine(overrides, multirun)
        found = list(line.faults().values())
        for job in line.jobs():
            composed, refused = line.compose(job)
            found += [*refused, *faults(composed)]
    return found


def assert_sound(experiment: str, lines: list[str]) -> None:
    """One for a GPU has nothing against it but that there is none, where there is none."""
    if experiment in ON_GPU and not torch.cuda.is_available():
        assert any("torch sees no CUDA device" in line for line in lines)
        lines = [line for line in lines if "cuda" not in line.lower()]
    assert [line for line in lines if not ("peers" in experiment and NO_PEERS in line)] == []


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).iterdir())


@pytest.mark.parametrize(
    ("name", "model"),
    [(name, model) for name in EXPERIMENTS for model in options("model") if not (name in ON_GPU and model == "tiny")],
)
def test_every_experiment_is_sound_with_every_model(name, model):
    """Those for a GPU with every real one."""
    assert_sound(name, all_faults([f"+exp={name}", f"model={model}"]))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_begins_with_its_command_and_is_called_by_its_file(name):
    text = (CONF / "exp" / f"{name}.yaml").read_text()
    comments = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    assert comments[0] == "@package _global_" and comments[1].startswith("python -m pipeline ")
    for command in (shlex.split(line) for line in comments if line.startswith("python -m pipeline ")):
        overrides = [word for word in command[3:] if word != "-m"]
        assert f"+exp={name}" in overrides
        assert_sound(name, all_faults(overrides, multirun="-m" in command[3:]))
    with initialize_config_dir(str(CONF), version_base="1.3"):
        found = compose("config", [f"+exp={name}"])
    assert found.name == name and len(found.arms) >= 1


@pytest.mark.parametrize("variant", options("variant"))
def test_every_variant_can_be_built(variant):
    """On a machine with a GPU, where every kernel runs."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        found = draft(compose("config", ["+exp=short_ctx", f"+variant@arms.extra={variant}"]))
    assert found.lines == []
    extra, model = found.sound(Variant, "arms", "extra"), found.sound(Model, "model")
    faults_found = list(problems(extra, model, "arms.extra", "cuda"))
    assert [line for line in faults_found if not (variant in PEERS and NO_PEERS in line)] == []


@pytest.mark.parametrize("workload", options("workload"))
def test_every_workload_can_be_drawn(workload):
    assert all_faults(["+exp=short_ctx", f"+workload@workloads.extra={workload}"]) == []


@pytest.mark.parametrize(
    ("group", "option"), [(group, name) for group in ("engine", "measure") for name in options(group)]
)
def test_every_other_option_is_sound(group, option):
    assert all_faults(["+exp=short_ctx", f"{group}={option}"]) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CONF)))
def test_scalars_are_what_they_look_like(path: Path):
    """YAML 1.1 reads 010 as 8, 1:30 as 90, yes as true, inf as text, 1e3 as no whole number."""
    assert list(misread(path)) == []
    for token in yaml.scan(path.read_text()):
        if isinstance(token, yaml.ScalarToken) and token.plain:
            assert not re.fullmatch(r"yes|no|on|y|n|inf|nan|\d+e\d+", token.value, re.I), token


def runs(model: str) -> tuple[Counter[str], list[tuple[str, int]]]:
    schedule = config("+exp=short_ctx", f"model={model}").model.schedule
    return Counter(schedule), [(kind, len(list(run))) for kind, run in groupby(schedule)]


def test_flash_has_2_swa_then_csa_and_hca_in_turn():
    counts, found = runs("v4_flash")
    assert counts == {"swa": 2, "csa": 21, "hca": 20}
    assert found == [("swa", 2), *[("csa", 1), ("hca", 1)] * 20, ("csa", 1)]


def test_pro_has_2_hca_then_csa_and_hca_in_turn():
    counts, found = runs("v4_pro")
    assert counts == {"csa": 30, "hca": 31}
    assert found == [("hca", 2), *[("csa", 1), ("hca", 1)] * 29, ("csa", 1)]


@pytest.mark.parametrize(("model", "core"), [("v4_flash", 107.0), ("v4_pro", 299.9)])
def test_core_projections_are_those_of_the_checkpoints(model, core):
    """MMAC per token of wq_a, wkv, wq_b, wo_a and wo_b."""
    it = config("+exp=short_ctx", f"model={model}").model
    width = it.heads * it.head_dim
    macs = (
        it.hidden * (it.q_lora_rank + it.head_dim)
        + it.q_lora_rank * width
        + width * it.o_lora_rank
        + it.o_groups * it.o_lora_rank * it.hidden
    )
    assert round(macs / 1e6, 1) == core


def test_the_short_context_ladder_lies_around_the_boundary_of_each_model():
    for model, expected in [
        ("v4_flash", {2047, 2048, 2051, 2052}),
        ("v4_pro", {4095, 4096, 4099, 4100}),
        ("tiny", {15, 16, 19, 20}),
    ]:
        found = config("+exp=short_ctx", f"model={model}")
        assert expected <= set(contexts(found.workloads["decode"], found.model))


def test_the_shortcut_arms_differ_in_nothing_else():
    arms = config("+exp=short_ctx").arms
    assert list(arms) == ["never", "batch", "row", "direct"]
    same = {
        name: (arm.ingest, arm.compress, arm.select.score, arm.select.topk, arm.attend, arm.emit)
        for name, arm in arms.items()
    }
    assert all(stages == same["never"] for stages in same.values())
    targets = [(arm.select.shortcut["_target_"], arm.select.locate["_target_"]) for arm in arms.values()]
    assert targets == [
        ("kernels.select.reference.Shortcut", "kernels.select.locate_eager.Locate"),
        ("kernels.select.shortcut_batch.Shortcut", "kernels.select.locate_eager.Locate"),
        ("kernels.select.shortcut_row.Shortcut", "kernels.select.locate_eager.Locate"),
        ("kernels.select.shortcut_row.Shortcut", "kernels.select.locate_direct.Locate"),
    ]
