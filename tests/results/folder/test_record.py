import json
import re
from dataclasses import fields, replace

import hydra
import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

from pipeline.door.config import from_yaml
from pipeline.evidence.samples import Samples
from pipeline.results.folder.files import replacing, write_json
from pipeline.results.folder.record import (
    failed_arms,
    open_run,
    read_config,
    read_provenance,
    read_summary,
    write_samples,
    write_summary,
)
from pipeline.results.folder.status import read_status
from tests.compose import CONF, ON_GPU
from tests.results.cases import ARMS, config, provenance, samples, summary
from tests.results.full import full


@pytest.fixture
def run(tmp_path):
    return open_run(config(), provenance(str(tmp_path)))


def test_the_folder_is_new_and_running(run, tmp_path):
    assert run.folder.parent == tmp_path / "outputs" / "short_ctx"
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", run.id)
    assert read_status(run.folder) == "running"


def test_a_run_that_died_is_closed_when_the_next_of_its_study_opens(run, tmp_path):
    told = json.loads((run.folder / "status.json").read_text())
    second = open_run(config(), provenance(str(tmp_path)))
    assert read_status(run.folder) == "running"
    write_json(run.folder / "status.json", told | {"process": told["process"] | {"started": 1}})
    elsewhere = open_run(replace(config(), name="other"), provenance(str(tmp_path)))
    assert read_status(run.folder) == "running"
    third = open_run(config(), provenance(str(tmp_path)))
    assert read_status(run.folder) == "killed"
    assert {read_status(each.folder) for each in (second, third, elsewhere)} == {"running"}


def test_folders_never_collide(tmp_path, monkeypatch):
    stems = iter(["aaaaaa", "aaaaaa", "bbbbbb"])
    real = __import__("secrets").token_hex
    monkeypatch.setattr("secrets.token_hex", lambda size: next(stems) if size == 3 else real(size))
    monkeypatch.setattr("pipeline.results.folder.record._stamp", lambda: "20261129T164400Z")
    first, second = (open_run(config(), provenance(str(tmp_path))) for _ in range(2))
    assert (first.id, second.id) == ("20261129T164400Z-aaaaaa", "20261129T164400Z-bbbbbb")


def test_the_configuration_reads_back_equal(run):
    """Text that YAML would take for a number, a flag or a time stays text; the order of arms stays."""
    found = read_config(run.folder)
    assert found == run.config
    assert list(found.arms) == ["never", "batch", "row.v2"]
    assert found.arms["row.v2"].attend["mode"] == "1e3"
    assert read_provenance(run.folder) == run.provenance


@pytest.mark.parametrize("name", sorted(path.stem for path in CONF.glob("exp/*.yaml") if "peers" not in path.stem))
def test_again_runs_an_equal_configuration(name, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)  # some experiments are for a GPU only
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "GPU")
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        tiny = [] if name in ON_GPU else ["model=tiny"]
        first = from_yaml(hydra.compose("config", [f"+exp={name}", *tiny, "seed=3", f"output_dir={tmp_path}"]))
        run = open_run(first, provenance(str(tmp_path)))
        search = f"hydra.searchpath=[file://{run.folder}]"
        assert from_yaml(hydra.compose("config", ["+exp=again", search])) == first
    assert from_yaml(OmegaConf.load(run.folder / "config.yaml")) == first
    command = (run.folder / "exp" / "again.yaml").read_text().splitlines()[1]
    assert command == f"# python -m pipeline --config-dir={run.folder} +exp=again"


def test_samples_keep_every_value_as_each_case_finishes(run):
    first, second = samples(), samples("decode-1024", 1024)
    write_samples(run, first)
    table = pd.read_csv(run.folder / "samples.csv.gz")
    assert len(table) == first.seconds.size
    write_samples(run, second)
    table = pd.read_csv(run.folder / "samples.csv.gz", dtype={"seconds": str})
    assert list(table.columns) == ["case", "context", "round", "step", "arm", "order", "seconds", "void", "given_up"]
    assert len(table) == first.seconds.size + second.seconds.size
    row = table.query("context == 1024 and round == 4 and step == 1 and arm == 'batch'").iloc[0]
    assert float(row["seconds"]) == second.seconds[4, 1, 2]
    assert row["order"] == second.order[4, 1, 2]
    raw = np.load(run.folder / "samples" / "decode-2048.npz")
    assert set(raw.files) == {field.name for field in fields(Samples)}
    assert tuple(raw["arms"]) == ARMS
    assert np.array_equal(raw["seconds"], first.seconds)
    assert raw["digest"] == "d1" and raw["warmup_rounds"] == 2


def test_what_an_attempt_recorded_that_was_given_up_stays_apart(run):
    """Its rounds have the numbers of those that count."""
    given_up = replace(samples(), seconds=samples().seconds[:2], order=samples().order[:2], partial=True, given_up=1)
    write_samples(run, given_up)
    write_samples(run, samples())
    held = {path.name: np.load(path) for path in (run.folder / "samples").iterdir()}
    assert {name: len(raw["seconds"]) for name, raw in held.items()} == {
        "decode-2048.npz": 5,
        "decode-2048@attempt-1.npz": 2,
    }
    table = pd.read_csv(run.folder / "samples.csv.gz")
    assert table.groupby("given_up").size().to_dict() == {0: samples().seconds.size, 1: given_up.seconds.size}
    assert not table.duplicated(["given_up", "case", "round", "step", "arm"]).any()


def test_a_summary_of_an_earlier_version_is_read(run):
    write_summary(run, full())
    told = json.loads((run.folder / "summary.json").read_text())
    roof = told["findings"]["roof"]
    for name in ("copy_bytes", "matrix_flops", "fp8_flops"):
        roof[name] = roof.pop(f"{name}_per_second")
    del roof["graph_launch"]
    told["headline"] = "; ".join(told["headline"]) + "."
    write_json(run.folder / "summary.json", told)
    assert read_summary(run.folder) == full()


def test_the_summary_reads_back_equal(run):
    write_summary(run, summary())
    assert read_summary(run.folder) == summary()


def test_json_never_holds_nan_or_infinity(run):
    found = summary()
    case = found.cases[0]
    broken = replace(case.arms["batch"].check, passed=False, error=float("nan"))
    arms = case.arms | {"batch": replace(case.arms["batch"], check=broken, metrics={"duration": float("inf")})}
    write_summary(run, replace(found, cases=(replace(case, arms=arms),)))
    for path in [run.folder / "summary.json", *run.folder.glob("benchmark/*/*.json")]:
        json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert json.loads((run.folder / "benchmark/decode-1024/batch.json").read_text())["duration"] is None


def test_benchmarks_have_vllm_keys_and_say_what_was_timed(run):
    write_summary(run, summary())
    found = json.loads((run.folder / "benchmark" / "serve" / "row.v2.json").read_text())
    arm = summary().cases[-1].arms["row.v2"]
    assert found["mean_tpot_ms"] == arm.metrics["mean_tpot_ms"]
    assert found["output_throughput"] == arm.metrics["output_throughput"]
    assert found["request_rate"] == 2.5 and found["burstiness"] == 0.5
    assert found["date"] == "20261129-164400"
    assert (found["scope"], found["layers"], found["tensor_parallel_size"]) == ("stack", "csa", 8)
    assert "p99_tpot_ms" not in found and found["undefined"]["p99_tpot_ms"] == "80 samples, 100 are needed"
    decode = json.loads((run.folder / "benchmark" / "decode-2048" / "batch.json").read_text())
    assert decode["request_rate"] == "inf"


def test_arms_that_failed():
    assert failed_arms(summary()) == ("row.v2",)


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})
    with pytest.raises(TypeError):
        write_json(path, {"x": object()})
    with pytest.raises(KeyboardInterrupt), replacing(path) as draft:
        draft.write_text("half")
        raise KeyboardInterrupt
    assert json.loads(path.read_text()) == {"x": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
