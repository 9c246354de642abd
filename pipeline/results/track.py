"""The folder of a run into MLflow, once: `python -m pipeline.results.track FOLDER`. The only file that knows MLflow."""

import logging
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read by MLflow when it is imported

from alembic.util.exc import CommandError
from filelock import FileLock, Timeout
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunStatus, ViewType
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from pipeline.evidence.summary import Summary
from pipeline.results.folder.ended import DAMAGED, NotEnded, ended
from pipeline.results.folder.files import write_json
from pipeline.results.folder.provenance import Provenance
from pipeline.results.folder.status import Terminated, read_status, sigterm_raises
from pipeline.results.report import note, write_report
from pipeline.results.tracker.entries import Entry, arm_entries, parent_entry
from pipeline.schema import Config

PARAMS_AT_ONCE = 100
METRICS_AT_ONCE = 1000
LOCK_SECONDS = 600
OTHER_VERSION = "the store was made by another version of MLflow; use that one or choose another track.uri"
TRAINING = "workflowType=machine_learning"  # else MLflow opens its pages for prompts and traces
ARTIFACTS = ("report.md", "report.html", "config.yaml", "summary.json", "provenance.json", "samples.csv.gz")
FOLDERS = ("plots", "samples")

log = logging.getLogger(__name__)
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
logging.getLogger("alembic").setLevel(logging.WARNING)


class TrackError(Exception):
    """The tracker did not take it; the folder still holds everything."""


@dataclass(frozen=True)
class TrackedRun:
    uri: str
    experiment_id: str
    run_id: str
    arms: dict[str, str]  # arm -> run id

    @property
    def page(self) -> str:
        """Verdict and table, below the address that `mlflow ui` prints."""
        return f"#/experiments/{self.experiment_id}/runs/{self.run_id}?{TRAINING}"

    @property
    def curves(self) -> str:
        """The arms of this run side by side, over the context."""
        mine = quote(f"tags.`mlflow.parentRunId` = '{self.run_id}'")
        flat = "orderByAsc=true&orderByKey=" + quote("tags.`mlflow.runName`")  # by date, arms fold under their parent
        return f"#/experiments/{self.experiment_id}/runs?{TRAINING}&compareRunsMode=CHART&{flat}&searchFilter={mine}"


def prepare(config: Config) -> None:
    """Before any work: TrackError if the store cannot take the experiment."""
    with _reached(config, Path(config.output_dir)):
        pass


def track(folder: Path, config: Config, provenance: Provenance, summary: Summary) -> TrackedRun:
    """Uploads the folder of a run unless that was done; what an interrupted upload left is replaced.

    The status of the run's entry is that of the folder. TrackError names the command that uploads it later; one that is
    stopped by Ctrl-C or SIGTERM tells it.
    """
    if "MLFLOW_RUN_ID" in os.environ:
        log.warning("MLFLOW_RUN_ID=%s is ignored: every run is a new one", os.environ["MLFLOW_RUN_ID"])
    folder = folder.resolve()
    later = f"Upload later: python -m pipeline.results.track {folder}"
    try:
        with sigterm_raises(), _reached(config, folder.parents[1]) as store:
            earlier = store.runs_of(folder.name)
            tracked = _complete(store, earlier)
            if tracked is None:
                store.delete(earlier)
                tracked = _upload(store, folder, config, provenance, summary)
    except TrackError as error:
        raise TrackError(f"{error}\n{later}") from error
    except (KeyboardInterrupt, Terminated):
        print(later, file=sys.stderr, flush=True)
        raise
    write_json(folder / "mlflow.json", asdict(tracked))
    return tracked


@dataclass(frozen=True)
class _Store:
    client: MlflowClient
    uri: str
    experiment_id: str

    def runs_of(self, folder: str) -> list[Run]:
        return self.client.search_runs(
            [self.experiment_id], f"tags.folder = '{folder}'", ViewType.ACTIVE_ONLY, max_results=1000
        )

    def delete(self, runs: list[Run]) -> None:
        for run in runs:
            self.client.delete_run(run.info.run_id)

    def add(self, entry: Entry, tags: dict[str, str], started: int) -> str:
        """FAILED until `end` is called, so that an upload that is cut off never looks like a running one."""
        run = self.client.create_run(self.experiment_id, started, {**entry.tags, **tags}, entry.name).info.run_id
        self.client.update_run(run, RunStatus.to_string(RunStatus.FAILED))
        params = [Param(key, value) for key, value in entry.params.items()]
        metrics = [Metric(metric.key, metric.value, started, metric.step) for metric in entry.metrics]
        for batch in _batches(params, PARAMS_AT_ONCE):
            self.client.log_batch(run, params=batch)
        for batch in _batches(metrics, METRICS_AT_ONCE):
            self.client.log_batch(run, metrics=batch)
        return run

    def end(self, run: str, entry: Entry, status: str, ended: int) -> None:
        """`status`: how the folder says that the run ended."""
        sound = "FINISHED" if entry.passed and status == "finished" else "FAILED"
        self.client.set_terminated(run, "KILLED" if status == "killed" else sound, ended)


def _upload(store: _Store, folder: Path, config: Config, provenance: Provenance, summary: Summary) -> TrackedRun:
    mark, status = {"folder": folder.name}, read_status(folder)
    started = round(datetime.fromisoformat(provenance.utc).timestamp() * 1000)
    ended = round((folder / "summary.json").stat().st_mtime * 1000)
    entry = parent_entry(folder.name, config, provenance, summary, note(summary, config))
    parent = store.add(entry, mark, started)
    _add_artifacts(store.client, parent, folder)
    arms = {}
    for arm, child in arm_entries(folder.name, config, provenance, summary).items():
        arms[arm] = store.add(child, {**mark, "arm": arm, "mlflow.parentRunId": parent}, started)
        for path in sorted(folder.glob(f"benchmark/*/{arm}.json")):
            store.client.log_artifact(arms[arm], str(path), f"benchmark/{path.parent.name}")
        store.end(arms[arm], child, status if status == "killed" else "finished", ended)
    store.end(parent, entry, status, ended)
    store.client.set_tag(parent, "upload", "complete")
    return TrackedRun(store.uri, store.experiment_id, parent, arms)


def _add_artifacts(client: MlflowClient, run: str, folder: Path) -> None:
    for name in ARTIFACTS:
        if (folder / name).exists():
            client.log_artifact(run, str(folder / name))
    for name in FOLDERS:
        if (folder / name).exists():
            client.log_artifacts(run, str(folder / name), name)


def _complete(store: _Store, runs: list[Run]) -> TrackedRun | None:
    parent = next((run.info.run_id for run in runs if run.data.tags.get("upload") == "complete"), None)
    if parent is None:
        return None
    arms = {run.data.tags["arm"]: run.info.run_id for run in runs if "arm" in run.data.tags}
    return TrackedRun(store.uri, store.experiment_id, parent, arms)


@contextmanager
def _reached(config: Config, outputs: Path) -> Iterator[_Store]:
    """The store, for one process at a time: sqlite files do not survive a race for their first tables."""
    path = _database(config.track.uri, outputs)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=LOCK_SECONDS):
            _write_nothing(path)
            uri = f"sqlite:///{path}"
            client = MlflowClient(uri, uri)
            yield _Store(client, uri, _experiment(client, config.name, outputs, uri))
    except (OSError, Timeout, sqlite3.Error, SQLAlchemyError, MlflowException, CommandError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        reason = f"{OTHER_VERSION}: {reason}" if isinstance(error, CommandError) else reason
        raise TrackError(f"the MLflow store {path} cannot be used: {reason}") from error


def _database(uri: str | None, outputs: Path) -> Path:
    path = outputs / "mlflow.db" if uri is None else Path(uri.removeprefix("sqlite:///"))
    if not path.is_absolute() or not (uri or "sqlite:///").startswith("sqlite:///"):
        raise TrackError(
            f"track.uri={uri}: remote trackers are not supported yet; allowed: null for mlflow.db in output_dir, or "
            "sqlite:////absolute/path.db"
        )
    if {"%", "?"} & set(str(path)):  # versions of SQLAlchemy disagree on what they mean
        raise TrackError(f"the MLflow store {path} has % or ? in its path; choose another output_dir or track.uri")
    return path


def _write_nothing(path: Path) -> None:
    """Fails at once on a file that is not a database or cannot be written; MLflow itself would retry for minutes."""
    with closing(sqlite3.connect(path, timeout=20, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def _experiment(client: MlflowClient, name: str, outputs: Path, uri: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        artifacts = (outputs / "mlartifacts" / name).as_uri()
        return client.create_experiment(name, artifacts)
    if found.lifecycle_stage == "deleted":
        raise TrackError(
            f"the MLflow experiment {name!r} was deleted. Restore it: MLFLOW_TRACKING_URI={uri} mlflow experiments "
            f"restore --experiment-id {found.experiment_id}; or choose another name=..."
        )
    return found.experiment_id


def _batches(items: list, size: int) -> list[list]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def main(arguments: list[str]) -> int:
    usage = "usage: python -m pipeline.results.track FOLDER, the folder of one run"
    if arguments in (["--help"], ["-h"]):
        print(usage)
        return 0
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(usage, file=sys.stderr)
        return 2
    folder = Path(arguments[0]).resolve()
    try:
        run = ended(folder)
        if not (folder / "report.md").exists():
            write_report(run.summary, run.config, run.provenance, folder)
        tracked = track(folder, run.config, run.provenance, run.summary)
    except (NotEnded, TrackError) as error:
        print(error, file=sys.stderr)
        return 1 if isinstance(error, TrackError) else 2
    except DAMAGED as error:
        print(f"{folder} is damaged: {type(error).__name__}: {error}; nothing counts as uploaded", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(f"run {tracked.run_id} in {tracked.uri}\nverdict {tracked.page}\ncurves  {tracked.curves}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
