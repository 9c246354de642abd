import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from mlflow import MlflowClient

from pipeline.results import track as module
from pipeline.results.track import TrackError, prepare, track
from pipeline.results.tracking import reach_tracker
from pipeline.schema import ConfigError
from tests.results.cases import config
from tests.results.uploads import client, recorded


@pytest.mark.parametrize(
    "uri", ["http://127.0.0.1:9", "databricks", "file:/tmp/mlruns", "postgresql://a/b", "sqlite:///relative.db"]
)
def test_other_trackers_are_refused(uri, outputs):
    chosen = config(str(outputs))
    chosen = replace(chosen, track=replace(chosen.track, uri=uri))
    with pytest.raises(
        TrackError, match=r"remote trackers are not supported yet; allowed: null .* or sqlite:////absolute"
    ):
        prepare(chosen)


def test_a_path_that_a_uri_would_change_is_refused(tmp_path):
    with pytest.raises(TrackError, match=r"has % or \? in its path"):
        prepare(config(str(tmp_path / "100%20")))


def test_a_store_elsewhere(tmp_path, empty_store):
    store = tmp_path / "team" / "lab.db"
    store.parent.mkdir()
    shutil.copy(empty_store, store)
    folder, chosen, *rest = recorded(tmp_path / "outputs")
    tracked = track(folder, replace(chosen, track=replace(chosen.track, uri=f"sqlite:///{store}")), *rest)
    assert MlflowClient(f"sqlite:///{store}").get_run(tracked.run_id).info.status == "FAILED"
    assert not (tmp_path / "outputs" / "mlflow.db").exists()


@pytest.mark.parametrize("break_it", [
    lambda store: store.write_text("this is not a database, however long it may be" * 9),
    lambda store: store.mkdir(),
], ids=["garbage", "folder"])  # fmt: skip
def test_a_broken_store_is_told_at_once_with_the_way_out(break_it, tmp_path):
    folder, *rest = recorded(tmp_path)
    break_it(tmp_path / "mlflow.db")
    with pytest.raises(TrackError) as error:
        track(folder, *rest)
    first, second = str(error.value).splitlines()
    assert first.startswith(f"the MLflow store {tmp_path}/mlflow.db cannot be used: ")
    assert second == f"Upload later: python -m pipeline.results.track {folder}"


def foreign(store, *statements):
    with closing(sqlite3.connect(store)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_a_store_of_another_version_is_told_with_the_way_out(tmp_path):
    folder, chosen, *rest = recorded(tmp_path)
    foreign(
        tmp_path / "mlflow.db",
        "CREATE TABLE alembic_version (version_num VARCHAR(32))",
        "INSERT INTO alembic_version VALUES ('ffffffffffff')",
    )
    with pytest.raises(ConfigError) as at_the_start:
        reach_tracker(chosen)
    assert "the store was made by another version of MLflow; use that one" in at_the_start.value.lines[0]
    assert "\n" not in at_the_start.value.lines[0]
    with pytest.raises(TrackError) as after:
        track(folder, chosen, *rest)
    assert str(after.value).splitlines()[1:] == [f"Upload later: python -m pipeline.results.track {folder}"]


def test_a_database_of_another_program_is_told_on_one_line(tmp_path):
    folder, *_ = recorded(tmp_path)
    foreign(tmp_path / "mlflow.db", "CREATE TABLE experiments (x INTEGER)")
    command = [sys.executable, "-m", "pipeline.results.track", folder]
    done = subprocess.run(command, timeout=100, capture_output=True, text=True)
    first, second = done.stderr.splitlines()
    assert done.returncode == 1 and first.startswith(f"the MLflow store {tmp_path}/mlflow.db cannot be used: ")
    assert second == f"Upload later: python -m pipeline.results.track {folder}"


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    chosen = config(str(tmp_path))
    with pytest.raises(TrackError, match="cannot be used"):
        prepare(replace(chosen, track=replace(chosen.track, uri=f"sqlite:///{tmp_path}/file/mlflow.db")))


def test_a_deleted_experiment_gives_the_choice(outputs):
    track(*recorded(outputs))
    store = client(outputs)
    store.delete_experiment(store.get_experiment_by_name("short_ctx").experiment_id)
    with pytest.raises(
        TrackError, match=r"'short_ctx' was deleted.*restore --experiment-id \d+; or choose another name"
    ):
        prepare(config(str(outputs)))


def test_the_lock_of_another_process_is_waited_for_only_so_long(outputs, monkeypatch):
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.1)
    with module.FileLock(f"{outputs}/mlflow.db.lock"), pytest.raises(TrackError, match="cannot be used"):
        prepare(config(str(outputs)))
