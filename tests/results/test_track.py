import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from mlflow import MlflowClient
from mlflow.entities import ViewType

from pipeline.results.folder.files import read_json
from pipeline.results.folder.status import read_status, write_status
from pipeline.results.track import main, track
from pipeline.results.tracker.entries import arm_entries
from tests.results.cases import ARMS, DECODE, summary
from tests.results.uploads import client, recorded, runs


def test_everything_arrives(outputs):
    folder, *rest = recorded(outputs)
    tracked = track(folder, *rest)
    assert tracked.uri == f"sqlite:///{outputs}/mlflow.db"
    assert read_json(folder / "mlflow.json")["run_id"] == tracked.run_id
    found, count = runs(outputs)
    assert count == 1 + len(ARMS) and found.keys() == {"parent", *ARMS}
    assert {arm: run.info.run_id for arm, run in found.items()} == {"parent": tracked.run_id, **tracked.arms}
    assert all(found[arm].data.tags["mlflow.parentRunId"] == tracked.run_id for arm in ARMS)
    assert {arm: run.info.status for arm, run in found.items()} == {
        arm: "FAILED" if arm in ("parent", "row.v2") else "FINISHED" for arm in found
    }
    assert found["parent"].data.tags["mlflow.note.content"].startswith("Before believing it:\n\n- ⚠ row.v2 has no")
    assert found["parent"].info.start_time == 1795970640000
    assert len(found["parent"].data.params) > 100, "more than one batch"
    assert found["parent"].data.params["model.topk"] == "512"
    assert found["batch"].data.metrics["model.topk"] == 512


def test_curves_read_back(outputs):
    folder, *rest = recorded(outputs)
    tracked = track(folder, *rest)
    history = client(outputs).get_metric_history(tracked.arms["batch"], "decode/tpot_ms")
    expected = {case.context: case.arms["batch"].metrics["mean_tpot_ms"] for case in summary().cases[: len(DECODE)]}
    assert {metric.step: metric.value for metric in history} == expected and len(history) == len(DECODE)


def test_more_metrics_than_a_batch_takes(outputs):
    case = summary().cases[0]
    ladder = tuple(replace(case, case=f"decode-{at}", context=at) for at in range(1, 61))
    folder, *rest = recorded(outputs, replace(summary(), cases=ladder))
    tracked = track(folder, *rest)
    assert len(arm_entries(folder.name, *rest)["batch"].metrics) > 1000
    for key in ("decode.ratio_e2el_high", "decode/tpot_ms", "decode.duration"):
        steps = [metric.step for metric in client(outputs).get_metric_history(tracked.arms["batch"], key)]
        assert sorted(steps) == list(range(1, 61))


def test_infinity_and_nan_are_never_stored(outputs):
    found = summary()
    case = found.cases[-1]
    arm = replace(
        case.arms["batch"], metrics={"mean_tpot_ms": float("inf"), "output_throughput": float("nan"), "completed": 3}
    )
    folder, *rest = recorded(outputs, replace(found, cases=(replace(case, arms=case.arms | {"batch": arm}),)))
    track(folder, *rest)
    metrics = runs(outputs)[0]["batch"].data.metrics
    assert metrics["serve.completed"] == 3
    assert not {"serve/tpot_ms", "serve.mean_tpot_ms", "serve/output_throughput", "serve.output_throughput"} & set(
        metrics
    )
    stored = sqlite3.connect(outputs / "mlflow.db").execute(
        "select count(*) from metrics where is_nan or abs(value) > 1e300"
    )
    assert stored.fetchone() == (0,)


def test_artifacts_lie_in_the_output_folder(outputs):
    folder, *rest = recorded(outputs)
    tracked = track(folder, *rest)
    held = {item.path for item in client(outputs).list_artifacts(tracked.run_id)}
    assert held == {
        "report.md",
        "report.html",
        "config.yaml",
        "summary.json",
        "provenance.json",
        "samples.csv.gz",
        "samples",
    }
    stored = outputs / "mlartifacts" / "short_ctx" / tracked.run_id / "artifacts"
    for name in ("report.md", "report.html"):
        assert (stored / name).read_text() == (folder / name).read_text()
    child = stored.parents[1] / tracked.arms["row.v2"] / "artifacts" / "benchmark" / "serve" / "row.v2.json"
    assert read_json(child)["label"] == "row.v2"


def test_a_second_upload_changes_nothing(outputs):
    folder, *rest = recorded(outputs)
    first = track(folder, *rest)
    (folder / "mlflow.json").unlink()
    assert track(folder, *rest) == first == track(folder, *rest)
    assert runs(outputs, ViewType.ALL)[1] == 1 + len(ARMS)
    assert read_json(folder / "mlflow.json")["arms"] == first.arms


@pytest.mark.parametrize("method", ["set_terminated", "log_artifact", "set_tag"])
def test_an_upload_that_was_cut_off_is_replaced(method, outputs, monkeypatch):
    folder, *rest = recorded(outputs)
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, method, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            track(folder, *rest)
    assert not (folder / "mlflow.json").exists()
    left, _ = runs(outputs)
    assert left and all(run.info.status != "RUNNING" for run in left.values())
    tracked = track(folder, *rest)
    found, count = runs(outputs)
    assert count == 1 + len(ARMS) and found["parent"].info.run_id == tracked.run_id


def test_two_runs_of_one_study_share_the_experiment(outputs):
    first, second = (track(*recorded(outputs)) for _ in range(2))
    assert first.experiment_id == second.experiment_id and first.run_id != second.run_id
    assert runs(outputs)[1] == 2 * (1 + len(ARMS))


@pytest.mark.xdist_group("cores")
def test_processes_racing_for_a_new_store(tmp_path):
    folders = [recorded(tmp_path)[0] for _ in range(4)]
    command = [sys.executable, "-m", "pipeline.results.track"]
    racing = [
        subprocess.Popen([*command, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for folder in folders
    ]
    for process in racing:
        output, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors.decode()
        assert b"verdict #/experiments/" in output and not errors
    assert runs(tmp_path)[1] == 4 * (1 + len(ARMS))
    for folder in folders:
        tracked = read_json(folder / "mlflow.json")
        assert len(client(tmp_path).get_metric_history(tracked["arms"]["batch"], "decode/tpot_ms")) == len(DECODE)


def test_a_preset_run_id_is_ignored_and_told(outputs, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "elsewhere")
    tracked = track(*recorded(outputs))
    assert caplog.messages == [f"MLFLOW_RUN_ID={'0' * 32} is ignored: every run is a new one"]
    assert tracked.run_id != "0" * 32 and runs(outputs)[0]["parent"].info.run_id == tracked.run_id
    assert os.environ["MLFLOW_RUN_ID"] == "0" * 32


def test_main_uploads_a_folder_once(outputs, capsys):
    folder, *_ = recorded(outputs)
    assert main([str(folder)]) == 0 == main([str(folder)])
    assert runs(outputs, ViewType.ALL)[1] == 1 + len(ARMS)
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == printed[3:]


def test_main_refuses_what_is_not_a_run(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert main([]) == 2
    assert "is not the folder of a run that was summarised" in capsys.readouterr().err


def test_an_upload_that_is_killed_never_looks_like_a_running_one(outputs):
    folder, *_ = recorded(outputs)
    program = (
        "import os, signal, sys; from pipeline.results import track\n"
        "track._add_artifacts = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "track.main(sys.argv[1:])"
    )
    killed = subprocess.run([sys.executable, "-c", program, folder], timeout=100)
    assert killed.returncode == -signal.SIGKILL
    assert [run.info.status for run in runs(outputs)[0].values()] == ["FAILED"]
    assert main([str(folder)]) == 0
    assert runs(outputs)[1] == 1 + len(ARMS)


LIVING = "import sys, time; from pathlib import Path; from pipeline.results.folder.status import write_status\n"
LIVING += "folder = Path(sys.argv[1]); write_status(folder, 'running'); (folder / 'ready').touch(); time.sleep(120)"


@pytest.fixture
def running(outputs):
    """A run that has its summary and not its report, and its process."""
    folder, *_ = recorded(outputs)
    for name in ("report.md", "report.html"):
        (folder / name).unlink()
    process = subprocess.Popen([sys.executable, "-c", LIVING, str(folder)])
    deadline = time.monotonic() + 60
    while not (folder / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    yield folder, process
    process.kill()
    process.wait()


def test_a_run_that_is_running_is_not_uploaded(running, capsys):
    folder, _ = running
    assert main([str(folder)]) == 2
    assert capsys.readouterr().err == f"{folder}: the run is running; upload it when it has ended\n"
    assert not (folder / "mlflow.json").exists() and read_status(folder) == "running"


def test_of_a_run_that_died_the_report_is_made_and_it_is_marked_as_killed(running, outputs):
    folder, process = running
    process.kill()
    process.wait()
    assert main([str(folder)]) == 0
    assert read_status(folder) == "killed"
    found, _ = runs(outputs)
    assert {run.info.status for run in found.values()} == {"KILLED"}
    assert (folder / "report.md").read_text().startswith("#") and (folder / "report.html").exists()
    names = {file.path for file in client(outputs).list_artifacts(found["parent"].info.run_id)}
    assert {"report.md", "report.html", "summary.json"} <= names


def test_a_run_that_failed_is_tracked_as_failed(outputs):
    folder, *rest = recorded(outputs, replace(summary(), cases=summary().cases[:1]))
    write_status(folder, "failed", "the report could not be made")
    track(folder, *rest)
    found, _ = runs(outputs)
    assert found["parent"].info.status == "FAILED" and found["batch"].info.status == "FINISHED"


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_upload_that_is_stopped_says_how_to_upload_it_later(outputs, stop, code):
    folder, *_ = recorded(outputs)
    program = (
        "import os, signal, sys; from pipeline.results import track\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background job ignores it
        f"track._add_artifacts = lambda *_: os.kill(os.getpid(), {int(stop)})\n"
        "sys.exit(track.main(sys.argv[1:]))"
    )
    stopped = subprocess.run([sys.executable, "-c", program, folder], timeout=100, capture_output=True, text=True)
    assert stopped.returncode == code
    assert stopped.stderr.splitlines()[-1] == f"Upload later: python -m pipeline.results.track {folder}"
    assert main([str(folder)]) == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("summary.json", "[]"),
        ("summary.json", "null"),
        ("summary.json", "{"),
        ("summary.json", '{"cases": [{}]}'),
        ("status.json", "[]"),
        ("status.json", "{}"),
        ("status.json", "null"),
        ("provenance.json", "3"),
        ("config.yaml", "a: [\n"),
        ("config.yaml", "a: ${nope}\n"),
        ("config.yaml", ""),
        ("config.yaml", "arms: null\n"),
    ],
)
def test_a_damaged_folder_is_one_line(outputs, capsys, name, text):
    folder, *_ = recorded(outputs)
    (folder / name).write_text(text)
    assert main([str(folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{folder} is not the folder of a run that was summarised: ")


def test_help_is_no_folder(capsys):
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: python -m pipeline.results.track FOLDER")
    assert main(["--all"]) == 2
