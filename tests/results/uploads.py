"""Folders to upload, and what arrived."""

from mlflow import MlflowClient
from mlflow.entities import ViewType

from pipeline.results.folder.files import write_text
from pipeline.results.folder.record import open_run, write_samples, write_summary
from pipeline.results.folder.status import write_status
from pipeline.results.report import page, report
from tests.results.cases import config, provenance, samples, summary


def recorded(outputs, found=None, **changes):
    """The folder of a run that has been measured, and what `track` takes."""
    chosen, seen, found = config(str(outputs), **changes), provenance(), found or summary()
    run = open_run(chosen, seen)
    write_samples(run, samples())
    write_summary(run, found)
    write_status(run.folder, "finished")
    write_text(run.folder / "report.md", report(found, chosen, seen, run.folder, []))
    write_text(run.folder / "report.html", page(found, chosen, seen, run.folder, []))
    return run.folder, chosen, seen, found


def client(outputs):
    return MlflowClient(f"sqlite:///{outputs}/mlflow.db")


def runs(outputs, view=ViewType.ACTIVE_ONLY, name="short_ctx"):
    experiment = client(outputs).get_experiment_by_name(name)
    found = client(outputs).search_runs([experiment.experiment_id], run_view_type=view)
    return {run.data.tags.get("arm", "parent"): run for run in found}, len(found)
