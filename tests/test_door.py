"""The command line to the exit code: what the door tells about bad input, and what it does with good input."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from hydra.core.hydra_config import HydraConfig
from safetensors.torch import save_file

from pipeline import __main__ as door
from pipeline.engine import checkpoint
from pipeline.results.folder.status import Terminated
from pipeline.schema import Config, ConfigError, Model
from tests import compose

ROOT = Path(__file__).parents[1]


@pytest.fixture
def ran(monkeypatch, tmp_path) -> list[Config]:
    """The configs that reached `pipeline.run.run`: seed 9 fails, 8 raises, 7 is refused, 6 and 5 are stopped by Ctrl-C
    and SIGTERM, 4 exits, 3 needs more memory than there is."""
    configs: list[Config] = []

    def run(config: Config, overrides: list[str]) -> SimpleNamespace:
        configs.append(config)
        match config.seed:
            case 8:
                raise RuntimeError("no luck")
            case 7:
                raise ConfigError(["weights lack a tensor"])
            case 3:
                torch.empty(1 << 45)
            case 6:
                raise KeyboardInterrupt
            case 5:
                raise Terminated(143)
            case 4:
                sys.exit(0)
        return SimpleNamespace(failed=config.seed == 9)

    module = ModuleType("pipeline.run")
    module.run = run
    monkeypatch.setitem(sys.modules, "pipeline.run", module)
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)  # --cfg leaves its own behind
    monkeypatch.chdir(tmp_path)
    return configs


def tiny_model() -> Model:
    return compose.config("+exp=short_ctx", "model=tiny").model


def enter(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["pipeline", *arguments])
    with pytest.raises(SystemExit) as ended:
        door.main()
    return ended.value.code


CPU = torch.device("cpu")
SHORT = "+exp=short_ctx"
MIX = "workloads.decode.mix.0"

BAD_INPUT = [
    # nothing to run
    ([], [("workloads={} and arms={}", "+exp=NAME")]),
    # groups and options
    (["+exp=shrot_ctx"], [("exp 'shrot_ctx'", "did you mean short_ctx?", "serve")]),
    ([SHORT, "model=v4_falsh"], [("model=v4_falsh", "did you mean v4_flash?", "tiny")]),
    ([SHORT, "model=null"], [("model=null", "tiny, v4_flash, v4_pro")]),
    ([SHORT, "model=[1]"], [("model=[1]", "tiny, v4_flash, v4_pro")]),
    ([SHORT, "++model=tiny"], [("++model=tiny", "chosen with model=tiny")]),
    ([SHORT, "model=tiny,v4_pro"], [("model=tiny,v4_pro", "-m", "'model=[tiny,v4_pro]'", "\"model='tiny,v4_pro'\"")]),
    ([SHORT, "variant@arms.foo=row"], [("variant@arms.foo=row", "variant@arms.batch", "+variant@arms.foo=row")]),
    ([SHORT, "+variant@arms.third=dirct"], [("+variant@arms.third=dirct", "did you mean direct?")]),
    ([SHORT, "varaint@arms.batch=row"], [("varaint@arms.batch=row", "did you mean variant?")]),
    ([SHORT, "arms/batch=row"], [("arms/batch=row", "no group arms/batch", "variant")]),
    ([SHORT, "hydra/launcher=joblib"], [("hydra/launcher/joblib", "basic")]),
    # text where a group belongs
    ([SHORT, "arms.batch=row"], [("arms.batch='row'", "variant@arms.batch=row")]),
    ([SHORT, "workloads.decode=mixed"], [("workloads.decode='mixed'", "workload@workloads.decode=mixed")]),
    ([SHORT, "reference=never"], [("reference='never'", "variant@reference=never")]),
    ([SHORT, "model.yarn=off"], [("model.yarn='off'", "give its keys")]),
    # what cannot be read
    ([SHORT, "foo"], [("foo: ", "write key=value")]),
    ([SHORT, "=3"], [("=3: ", "write key=value")]),
    ([SHORT, "engine.weights=/x/a=b.csv"], [("engine.weights=/x/a=b.csv", "\"engine.weights='/x/a=b.csv'\"")]),
    ([SHORT, "engine.weights=/x/(1).csv"], [("engine.weights=/x/(1).csv", "\"engine.weights='/x/(1).csv'\"")]),
    ([SHORT, "engine.weights=/x/a,b.csv"], [("engine.weights=/x/a,b.csv", "\"engine.weights='/x/a,b.csv'\"")]),
    ([SHORT, "--foo"], [("--foo",)]),
    ([SHORT, "--config-dir=/not/there"], [("--config-dir=/not/there", "no such folder")]),
    ([SHORT, "~foo"], [("~foo", "'foo' does not exist")]),
    ([SHORT, "engine.tp=interval(1,4)"], [("engine.tp=interval(1,4)", "engine.tp=1,2,4")]),
    # unknown keys, by every route
    ([SHORT, "model.hedas=3"], [("model.hedas=3", "did you mean heads?")]),
    ([SHORT, "+model.hedas=3"], [("model.hedas=3", "did you mean heads?")]),
    ([SHORT, "++model.hedas=3"], [("model.hedas=3", "did you mean heads?")]),
    ([SHORT, "+workload.ouptut_len=3"], [("workload={'ouptut_len': 3}", "did you mean workloads?")]),
    (
        [SHORT, "+workloads.decode.ouptut_len=3"],
        [("workloads.decode.ouptut_len=3", "mean mix.0.output_len?", "ladder")],
    ),
    ([SHORT, f"++{MIX}.weigth=2"], [(f"{MIX}.weigth=2", "did you mean weight?")]),
    ([SHORT, f"{MIX}={{ouptut_len:3}}"], [(f"{MIX}.ouptut_len=3", "did you mean output_len?")]),
    ([SHORT, "num_requests=3"], [("num_requests=3", "did you mean workloads.NAME.num_requests?")]),
    ([SHORT, "arms.row.attend.keys_at_onc=4"], [("arms.row.attend.keys_at_onc=4", "did you mean keys_at_once?")]),
    ([SHORT, "arms.row.select.locat.x=1"], [("arms.row.select.locat={'x': 1}", "did you mean locate?")]),
    # types and ranges
    ([SHORT, "engine.dtype=fp16"], [("engine.dtype='fp16'", "auto, bf16 or fp32")]),
    ([SHORT, "engine.layers=cas"], [("engine.layers='cas'", "swa, csa, hca or all, or a whole number from 1")]),
    ([SHORT, "measure.control=off"], [("measure.control='off'", "true or false")]),
    ([SHORT, "seed=true"], [("seed=true", "from 0 and below 4294967296")]),
    ([SHORT, "measure.rounds=0"], [("measure.rounds=0", "a whole number from 1 to 16777216")]),
    ([SHORT, "measure.rounds=1e3"], [("measure.rounds=1000.0", "a whole number")]),
    ([SHORT, "model.topk=-5"], [("model.topk=-5", "a whole number from 1 to 1048576")]),
    ([SHORT, "model.topk=100000000000000000000"], [("model.topk=100000000000000000000", "to 1048576")]),
    ([SHORT, "model.topk=010"], [("model.topk='010'", "a whole number")]),
    ([SHORT, "measure.margin=nan"], [("measure.margin=nan", "a number above 0 and below 1")]),
    *(
        ([SHORT, f"name={name}"], [(f"name={name}", "MLflow keeps a file of this name")])
        for name in ("mlflow.db", "mlflow.db.lock", "mlflow.db-wal", "mlartifacts")
    ),
    (
        [SHORT, "model=tiny", "workloads.decode.boundary=[0,-16]"],
        [("workloads.decode.boundary=[0, -16]: -16 is below the boundary of model tiny", "give offsets above -16")],
    ),
    ([SHORT, "name=''"], [("name=''", "a name of at most 64")]),
    ([SHORT, "model.schedule=[csa,cssa]"], [("model.schedule.1='cssa'", "swa, csa or hca")]),
    ([SHORT, "workloads.decode.ladder=9"], [("workloads.decode.ladder=9", "a list")]),
    ([SHORT, "workloads.decode.arrival.rate=0"], [("workloads.decode.arrival.rate=0", "above 0", "null")]),
    ([SHORT, "workloads.decode.arrival.rate=-1"], [("workloads.decode.arrival.rate=-1", "above 0")]),
    ([SHORT, "workloads.decode.arrival.rate=inf"], [("workloads.decode.arrival.rate=inf", "above 0", "null")]),
    ([SHORT, "workloads.decode.arrival.rate=nan"], [("workloads.decode.arrival.rate=nan", "above 0")]),
    ([SHORT, "workloads.decode.arrival.burstiness=inf"], [("workloads.decode.arrival.burstiness=inf", "above 0")]),
    ([SHORT, "workloads.decode.arrival.burstiness=0"], [("workloads.decode.arrival.burstiness=0", "above 0")]),
    # unset and unresolved
    ([SHORT, "measure.rounds=???"], [("measure.rounds is not set (???)", "a whole number from 1")]),
    ([SHORT, f"{MIX}.output_len=???"], [(f"{MIX}.output_len is not set (???)", "a whole number")]),
    ([SHORT, "arms.row.attend.keys_at_once=???"], [("arms.row.attend.keys_at_once is not set",)]),
    ([SHORT, "track.uri=${bad.key}"], [("track.uri=${bad.key}", "'bad.key' not found")]),
    ([SHORT, "name=${name}"], [("name=${name}", "Recursive interpolation")]),
    ([SHORT, "~engine"], [("engine is missing", "a group with device, dtype")]),
    # workloads
    ([SHORT, f"{MIX}.output_len=0"], [(f"{MIX}.output_len=0", "at least 1")]),
    ([SHORT, f"{MIX}.output_len=[1,1,0]"], [(f"{MIX}.output_len=[1, 1, 0]", "at least 1")]),
    ([SHORT, f"{MIX}.output_len={{kind:uniform,low:0,high:2}}"], [(f"{MIX}.output_len.low=0", "at least 1")]),
    ([SHORT, f"{MIX}.output_len={{kind:uniform,low:5,high:2}}"], [(f"{MIX}.output_len.low=5", "at most", "high=2")]),
    (
        [SHORT, f"{MIX}.output_len={{kind:list,values:[1,2],weights:[1]}}"],
        [("weights=[1.0]", "1 weights for 2 values")],
    ),
    ([SHORT, f"{MIX}.output_len={{kind:list,values:[1,2],weights:[0,0]}}"], [("weights=[0.0, 0.0]", "not all be 0")]),
    ([SHORT, f"{MIX}.output_len={{kind:list,values:[1,2],weights:[2,-1]}}"], [("weights.1=-1", "a number from 0")]),
    ([SHORT, f"{MIX}.output_len={{kind:unifrom}}"], [("{'kind': 'unifrom'}", "fixed, list, lognormal or uniform")]),
    ([SHORT, f"{MIX}.weight=0"], [(f"{MIX}.weight=0", "above 0")]),
    ([SHORT, f"{MIX}.weight=-1"], [(f"{MIX}.weight=-1", "above 0")]),
    ([SHORT, "workloads.decode.mix=[]"], [("workloads.decode.mix=[]", "a list of one or more")]),
    ([SHORT, "workloads.decode.num_requests=0"], [("workloads.decode.num_requests=0", "from 1")]),
    ([SHORT, "workloads.decode.ladder=[]"], [("workloads.decode.ladder=[]", "a list of one or more")]),
    ([SHORT, "workloads.decode.ladder=[9,8,9]"], [("workloads.decode.ladder=[9, 8, 9]", "9 repeated")]),
    (
        [SHORT, "workloads.decode.ladder=[1]"],
        [("requests of decode-1 lack a prompt of at least 1 token", "output_len=2")],
    ),
    ([SHORT, f"{MIX}.prompt_len=3"], [(f"{MIX}.prompt_len=3", "ladder")]),
    (
        ["+exp=serve", "workloads.serve.mix.0.prompt_len=null"],
        [("workloads.serve.mix.0.prompt_len is missing", "ladder")],
    ),
    (["+exp=serve", "workloads.serve.mix.0.prompt_len=0"], [("workloads.serve.mix.0.prompt_len=0", "at least 1")]),
    (
        ["+exp=serve", "workloads.serve.mix.0.cached_len=2999"],
        [("lack cached_len below prompt_len", "cached_len=2999")],
    ),
    (
        ["+exp=serve", "workloads.serve.mix.0.prompt_len={kind:uniform,low:20,high:60}"],
        [("serve.mix.0.prompt_len: kind uniform has no median, sigma", "merged", "'workloads.serve.mix=[{...}]'")],
    ),
    (
        ["+exp=serve", "++workloads.serve.mix.0.prompt_len={kind:list,values:[20,60]}"],
        [("serve.mix.0.prompt_len: kind list has no median, sigma, low, high", "'workloads.serve.mix=[{...}]'")],
    ),
    ([SHORT, "measure.l2=hot"], [("measure.l2='hot'", "warm, cold or both")]),
    (["+exp=self_test", "measure.seconds=3"], [("measure.seconds=3:", "a self test makes all rounds", "null")]),
    (["+exp=self_test", "measure.stop=decided"], [("measure.stop=decided:", "a self test", "measure.stop=budget")]),
    (["+exp=self_test", "self_test.stage=score"], [("self_test.stage='score'", "ingest, attend or emit")]),
    (["+exp=self_test", "self_test.delays=[2]"], [("self_test.delays.0=2", "above 0 and below 1")]),
    # between the parts
    (
        [SHORT, "engine.device=cpu", "engine.graph=full", "measure.scope=attend"],
        [
            ("engine.graph=full", "engine.device is cpu here", "use engine.graph=off"),
        ],
    ),
    ([SHORT, "engine.tp=3"], [("engine.tp=3", "heads=64 and o_groups=8", "1, 2, 4, 8")]),
    ([SHORT, "engine.tp=16"], [("engine.tp=16", "o_groups=8")]),
    ([SHORT, "engine.layers=44"], [("engine.layers=44", "43 layers", "from 1 to 43")]),
    ([SHORT, "model.rope_dim=7"], [("model.rope_dim=7", "even", "8")]),
    ([SHORT, "model.rope_dim=256"], [("model.rope_dim=256", "model.index_dim=128")]),
    ([SHORT, "model.head_dim=100"], [("engine.kv_layout=fp8_ds_mla", "100 - 64 = 36", "engine.kv_layout=plain")]),
    ([SHORT, "model.head_dim=64"], [("engine.kv_layout=fp8_ds_mla", "64 - 64 = 0", "engine.kv_layout=plain")]),
    ([SHORT, "model.index_dim=66"], [("engine.index_layout=fp8", "multiple of 4", "66", "engine.index_layout=plain")]),
    ([SHORT, "model.o_groups=7"], [("model.o_groups=7", "model.heads=64")]),
    ([SHORT, "model.rope_theta=1"], [("model.rope_theta=1.0", "above 1")]),
    ([SHORT, "model.yarn.beta_slow=40"], [("model.yarn.beta_slow=40.0", "model.yarn.beta_fast=32.0")]),
    ([SHORT, "measure.scope=topk", "engine.layers=hca"], [("measure.scope=topk", "engine.layers=hca", "csa")]),
    ([SHORT, "measure.scope=cover"], [("measure.scope=cover", "engine.layers=csa", "hca")]),
    (
        [SHORT, "measure.scope=combine", "variant@arms.never=gathered", "~arms.batch", "~arms.direct"],
        [("measure.scope=combine", "arms.row.prefill=null", "variant@arms.row=gathered")],
    ),
    (
        [SHORT, "measure.scope=attend", "arms.row.streams=2"],
        [
            ("measure.scope=attend", "arms.row.streams=2 changes nothing in one stage alone", "measure.scope=stack"),
            ("arms.row.streams=2", "a CPU has none", "arms.row.streams=1"),
        ],
    ),
    ([SHORT, "engine.chunked_prefill=false", "engine.max_num_batched_tokens=256"], [("prefill-512", "=256")]),
    ([SHORT, "+variant@arms.control=row"], [("arms.control", "measure.control")]),
    ([SHORT, "+variant@arms.noise=row"], [("arms.noise", "measure.control")]),
    ([SHORT, "arms={}"], [("arms={}", "changes nothing", "~arms.NAME")]),
    ([SHORT, "engine.weights=gone.safetensors"], [("engine.weights=gone.safetensors", "no such file")]),
    ([SHORT, "track.uri=file:///x"], [("track.uri=file:///x", "sqlite:///FILE, or null")]),
    ([SHORT, "track.uri=http://h:5000"], [("track.uri=http://h:5000", "sqlite:///FILE, or null")]),
    # kernels
    ([SHORT, "arms.row.emit._target_=3"], [("arms.row.emit._target_=3", "package.module.Class")]),
    (
        [SHORT, "arms.row.emit._target_=kernels.emit.eagr.Emit"],
        [("no module kernels.emit.eagr", "did you mean eager?")],
    ),
    ([SHORT, "arms.row.emit._target_=kernels.emit.eager.Emitt"], [("kernels.emit.eager.Emitt'", "did you mean Emit?")]),
    ([SHORT, "arms.row.emit._target_=kernelz.Emit"], [("no module kernelz", "installed")]),
    (
        [SHORT, "arms.row.select.topk._target_=kernels.select.reference.Locate"],
        [("arms.row.select.topk._target_=", "takes (chosen,", "called with (scores, visible, topk)")],
    ),
    ([SHORT, "reference.attend.foo=1"], [("reference.attend.foo=1", "kernels.attend.reference.Attend has no such")]),
    ([SHORT, "arms.row.attend.keys_at_once=0"], [("arms.row.attend.keys_at_once=0", "a whole number from 1")]),
    ([SHORT, "arms.row.attend.keys_at_once=1.5"], [("arms.row.attend.keys_at_once=1.5", "a whole number")]),
]


def matches(line: str, fragments: tuple[str, ...]) -> bool:
    return all(fragment in line for fragment in fragments)


@pytest.mark.parametrize(("arguments", "told"), BAD_INPUT, ids=[" ".join(arguments) for arguments, _ in BAD_INPUT])
def test_bad_input_is_one_line_a_fault_and_exit_code_2(ran, monkeypatch, capsys, tmp_path, arguments, told):
    assert enter(monkeypatch, *arguments) == 2
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert len(lines) == len(told), err
    assert all(matches(line, fragments) for line, fragments in zip(lines, told, strict=True)), err
    assert out == "" and ran == [] and list(tmp_path.iterdir()) == []


def test_faults_of_every_sort_are_told_together(ran, monkeypatch, capsys):
    arguments = [
        SHORT,
        "model=v4_falsh",
        "engine.weights=/x/a=b.csv",
        "~foo",
        "model.hedas=3",
        "measure.rounds=0",
        "seed=???",
        "engine.tp=3",
        "workloads.decode.ladder=[9,9]",
        "arms.row.attend.keys_at_once=0",
        "engine.device=cuda",
    ]
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert enter(monkeypatch, *arguments) == 2
    told = [line.split(": ")[0].split(" is not")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == [
        "model=v4_falsh",
        "engine.weights=/x/a=b.csv",
        "~foo",
        "seed",
        "model.hedas=3",
        "measure.rounds=0",
        "workloads.decode.ladder=[9, 9]",
        "engine.device=cuda",
        "arms.row.attend.keys_at_once=0",
    ]


def test_a_graph_needs_the_device_that_is_used_and_not_one_that_is_there(ran, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert enter(monkeypatch, SHORT, "engine.device=cpu", "engine.graph=full") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "engine.graph=full: CUDA graphs need a CUDA device, engine.device is cpu here; use engine.graph=off"


def test_a_kernel_of_a_package_that_is_absent_says_how_to_get_it(ran, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("kernels.peers.find_spec", lambda name: None)
    assert enter(monkeypatch, SHORT, "engine.device=cuda", "variant@arms.row=topk_vllm") == 2
    _, line = capsys.readouterr().err.splitlines()
    assert line == (
        "arms.row.select.topk._target_='kernels.select.topk_vllm.TopK': vLLM is not installed; "
        "pip install vllm==0.26.0 into an environment with torch 2.11, or choose another variant"
    )
    assert ran == []


@pytest.mark.parametrize(("seed", "code"), [(0, 0), (9, 1), (8, 1), (7, 2), (6, 130)])
def test_the_exit_code_says_how_the_run_ended(ran, monkeypatch, capsys, seed, code):
    assert enter(monkeypatch, SHORT, f"seed={seed}") == code
    assert [config.seed for config in ran] == [seed]
    err = capsys.readouterr().err
    assert ("weights lack a tensor" in err) == (seed == 7)
    assert ("RuntimeError: no luck" in err) == (seed == 8)


def test_too_little_memory_is_told_on_one_line(ran, monkeypatch, capsys):
    assert enter(monkeypatch, SHORT, "seed=3") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "seed=3: does not fit into memory: " in line and line.endswith("or a rank of more (engine.tp)")


def test_a_failing_job_does_not_stop_the_others(ran, monkeypatch, capsys):
    assert enter(monkeypatch, "-m", SHORT, "seed=0,8,7,1") == 1
    assert [config.seed for config in ran] == [0, 8, 7, 1]
    out, err = capsys.readouterr()
    assert [line.split(" ")[-1] for line in out.splitlines()] == ["seed=0", "seed=8", "seed=7", "seed=1"]
    assert "seed=8: failed with RuntimeError: no luck" in err


def test_a_multirun_with_refused_jobs_only_ends_as_bad_input(ran, monkeypatch):
    assert enter(monkeypatch, "-m", SHORT, "seed=7,0") == 2


def test_ctrl_c_stops_a_multirun(ran, monkeypatch):
    assert enter(monkeypatch, "-m", SHORT, "seed=6,0") == 130
    assert [config.seed for config in ran] == [6]


def test_sigterm_stops_a_multirun(ran, monkeypatch, capsys):
    assert enter(monkeypatch, "-m", SHORT, "seed=5,0") == 143
    assert [config.seed for config in ran] == [5]
    assert capsys.readouterr().err == f"{door.STOPPED}\n"


def test_sigterm_before_there_is_a_run_is_told_as_well(ran, monkeypatch, capsys):
    monkeypatch.setattr(door, "_faults", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert enter(monkeypatch, SHORT) == 143
    assert not ran and capsys.readouterr().err == f"{door.STOPPED}\n"


def test_a_job_that_exits_has_failed_and_stops_no_other(ran, monkeypatch, capsys):
    assert enter(monkeypatch, "-m", SHORT, "seed=4,0") == 1
    assert [config.seed for config in ran] == [4, 0]
    assert "seed=4: failed with SystemExit: 0" in capsys.readouterr().err


def test_a_job_is_judged_once(ran, monkeypatch):
    judged = []
    once = door.faults
    monkeypatch.setattr(door, "faults", lambda composed: judged.append(composed.seed) or once(composed))
    monkeypatch.setattr("pipeline.door.config.faults", None)
    assert enter(monkeypatch, "-m", SHORT, "seed=1,2") == 0
    assert judged == [1, 2] and [config.seed for config in ran] == [1, 2]


def test_no_job_of_a_multirun_starts_before_all_are_checked(ran, monkeypatch, capsys):
    assert enter(monkeypatch, "-m", SHORT, "seed=0,-1", "engine.layers=swa,cas") == 2
    assert ran == []
    told = [line.split(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert sorted(told) == ["engine.layers='cas'", "seed=-1"]


def test_a_multirun_runs_every_combination(ran, monkeypatch):
    assert enter(monkeypatch, SHORT, "-m", "model.topk=128,512", "variant@arms.batch=row,direct") == 0
    found = [(config.model.topk, config.arms["batch"].select.locate["_target_"]) for config in ran]
    eager, direct = "kernels.select.locate_eager.Locate", "kernels.select.locate_direct.Locate"
    assert found == [(128, eager), (128, direct), (512, eager), (512, direct)]


def test_arms_and_workloads_are_chosen_and_added_on_the_command_line(ran, monkeypatch):
    chosen = ["variant@arms.batch=row", "+variant@arms.third=direct", "workload@workloads.decode=mixed"]
    assert enter(monkeypatch, SHORT, *chosen, "model=tiny") == 0
    (config,) = ran
    assert list(config.arms) == ["never", "batch", "row", "direct", "third"]
    assert config.arms["batch"] == config.arms["row"] and config.arms["third"] == config.arms["direct"]
    assert [part.weight for part in config.workloads["decode"].mix] == [6.0, 1.0, 1.0]
    assert config.model.name == "tiny" and config.model.window == 8 and config.name == "short_ctx"


def test_a_key_that_the_schema_knows_needs_no_plus(ran, monkeypatch):
    assert enter(monkeypatch, SHORT, f"{MIX}.weight=2.0", "workloads.decode.ladder.0=512") == 0
    assert ran[0].workloads["decode"].mix[0].weight == 2.0
    assert ran[0].workloads["decode"].ladder == [512, 4096]


@pytest.mark.parametrize("chdir", ["false", "true"])
def test_relative_paths_count_from_where_the_command_was_given(ran, monkeypatch, tmp_path, chdir):
    save_file(checkpoint.draw(tiny_model(), "csa", 1, 0, CPU), tmp_path / "w.safetensors")
    paths = ["model=tiny", "output_dir=here", "engine.weights=w.safetensors", "track.uri=sqlite:///db/runs.db"]
    assert enter(monkeypatch, "-m", SHORT, *paths, f"hydra.job.chdir={chdir}", "seed=1,2") == 0
    for config in ran:
        assert config.output_dir == str(tmp_path / "here")
        assert config.engine.weights == str(tmp_path / "w.safetensors")
        assert config.track.uri == f"sqlite:///{tmp_path}/db/runs.db"


def test_a_weights_file_is_judged_by_its_header_before_any_job(ran, monkeypatch, capsys, tmp_path):
    stored = {
        f"layers.{number}.attn.{name}": tensor
        for number, kind in enumerate(["swa", "csa", "hca"])
        for name, tensor in checkpoint.draw(tiny_model(), kind, 1, 0, CPU).items()
    }
    del stored["layers.1.attn.indexer.wq_b"]
    stored["layers.1.attn.attn_sink"] = torch.zeros(5)
    stored["layers.2.attn.wq_a"] = stored["layers.2.attn.wq_a"].to(torch.float8_e4m3fn)
    stored["layers.2.attn.wkv"] = stored["layers.2.attn.wkv"].to(torch.float8_e4m3fn)
    stored["layers.2.attn.wkv.scale"] = torch.ones(1, 1)
    save_file(stored | {"layers": torch.zeros(1), "layers.2": torch.zeros(1)}, tmp_path / "w.safetensors")
    given = ["-m", SHORT, "model=tiny", "engine.weights=w.safetensors"]
    assert enter(monkeypatch, *given, "engine.layers=swa,csa,3") == 2
    first = "engine.weights=w.safetensors: layer 1 (csa): tensor indexer.wq_b is missing, "
    assert capsys.readouterr().err.splitlines() == [
        f"{first}tensor attn_sink has shape [5], tiny needs [4]",
        "engine.weights=w.safetensors: layer 2 (hca): tensor wq_a.scale is missing, "
        "tensor wkv.scale has shape [1, 1], tiny needs [1, 2]",
    ]
    assert ran == []
    assert enter(monkeypatch, *given, "engine.layers=swa") == 0
    (tmp_path / "w.safetensors").write_bytes(b"no tensors here")
    assert enter(monkeypatch, *given, "engine.layers=swa") == 2
    assert matches(capsys.readouterr().err, ("engine.weights=", "w.safetensors: not a readable safetensors file"))


def test_a_run_leaves_nothing_of_hydras_own(ran, monkeypatch, tmp_path):
    assert enter(monkeypatch, SHORT) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_ones_own_holds_experiments_too(ran, monkeypatch, tmp_path, capsys):
    (tmp_path / "mine" / "exp").mkdir(parents=True)
    experiment = tmp_path / "mine" / "exp" / "closer.yaml"
    experiment.write_text("# @package _global_\ndefaults: [short_ctx, _self_]\nname: closer\nmeasure:\n  rounds: 3\n")
    assert enter(monkeypatch, "--config-dir=mine", "+exp=closer") == 0
    assert (ran[0].name, ran[0].measure.rounds) == ("closer", 3)
    for text, told in [
        ("measure: {rouns: 3}", ("measure.rouns=3", "did you mean rounds?")),
        ("workloads: {decode: {mix: [{ouptut_len: 3}]}}", ("workloads.decode.mix.0.ouptut_len=3", "output_len?")),
        ("model: tiny", ("model='tiny'", "override /model: tiny")),
        ("seed: ${nowhere}", ("seed=${nowhere}", "'nowhere' not found")),
        ("name: [", ("closer.yaml", "line")),
        ("name: x", ("closer.yaml", "duplicate key name")),
        ("model: {topk: 010}", ("closer.yaml, line 4: YAML reads 010 as 8", "plain decimal")),
        ("measure:\n  rounds: 1:30", ("closer.yaml, line 5: YAML reads 1:30 as 90", "plain decimal")),
        ("workloads: {decode: {arrival: {rate: 1:30.5}}}", ("line 4: YAML reads 1:30.5 as 90.5", "plain decimal")),
    ]:
        experiment.write_text(f"# @package _global_\ndefaults: [short_ctx, _self_]\nname: closer\n{text}\n")
        capsys.readouterr()
        assert enter(monkeypatch, "--config-dir=mine", "+exp=closer") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert matches(line, told), line


def test_numbers_are_read_in_the_files_that_are_chosen_and_their_parents_only(ran, monkeypatch, tmp_path, capsys):
    (tmp_path / "mine" / "exp").mkdir(parents=True)
    head = "# @package _global_\ndefaults: [{}, _self_]\n"
    (tmp_path / "mine" / "exp" / "parent.yaml").write_text(head.format("short_ctx") + "model: {topk: 010}\n")
    (tmp_path / "mine" / "exp" / "child.yaml").write_text(head.format("parent") + "model: {topk: 16}\n")
    assert enter(monkeypatch, "--config-dir=mine", "+exp=child") == 2
    assert matches(capsys.readouterr().err, ("exp/parent.yaml, line 3: YAML reads 010 as 8",))
    assert enter(monkeypatch, "--config-dir=mine", "+exp=mixed") == 0


def test_the_config_is_shown_but_not_judged_by_cfg(ran, monkeypatch, capsys):
    assert enter(monkeypatch, SHORT, "--cfg", "job", "seed=-1") == 0
    assert "seed: -1" in capsys.readouterr().out
    assert enter(monkeypatch, SHORT, "--cfg", "job", "model=v4_falsh") == 2
    assert ran == []


def command(*arguments: str, cwd: Path) -> tuple[int, list[str], float]:
    start = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    return ended.returncode, ended.stderr.splitlines(), time.monotonic() - start


def test_the_command_works_from_any_folder(tmp_path):
    code, lines, _ = command(SHORT, "measure.rounds=0", "engine.weights=/x/(1)", cwd=tmp_path)
    assert code == 2
    assert [line.split(":")[0] for line in lines] == ["engine.weights=/x/(1)", "measure.rounds=0"]
    assert list(tmp_path.iterdir()) == []


def test_the_first_fault_is_told_before_torch_is_imported():
    script = (
        "import sys; sys.argv = ['pipeline', '+exp=short_ctx', 'measure.rounds=0']\n"
        "from pipeline import __main__ as door\n"
        "told = door._told\n"
        "def first(lines):\n"
        "    print(next(iter(lines)), 'torch' in sys.modules)\n"
        "    sys.exit(0)\n"
        "door._told = first\n"
        "door.main()"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.split()[0] == "measure.rounds=0:" and ended.stdout.split()[-1] == "False"
