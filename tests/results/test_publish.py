import gzip
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pipeline.results.folder.files import write_json, write_text
from pipeline.results.folder.record import again
from pipeline.results.folder.status import write_status
from pipeline.results.publish import PublishError, main, publish
from tests.results.cases import summary

PROVENANCE = {
    "command": "", "overrides": [], "launch_directory": "/home/someone", "git_commit": None, "git_dirty": None,
    "python": "3.12", "packages": {}, "platform": "Linux-6.1-of-someone", "cpu": "x", "cores": 1, "gpu": None,
    "utc": "",
}  # fmt: skip
RUN = Path("/home/someone/my out/mine/20260101T0000Z-a")
REPORT = f"""machine: x; Linux-6.1-of-someone
Stage by stage: `report.html`.
python -m pipeline +exp=mine 'a.b=[1]' track.enabled=false output_dir=/home/someone/out measure.rounds=3
`{again(RUN)}`: `out/mine/{RUN.name}`
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "out" / "mine" / RUN.name
    write_json(run / "provenance.json", PROVENANCE)
    write_text(run / "report.md", REPORT)
    write_text(
        run / "exp" / "again.yaml", f"# @package _global_\n# {again(RUN)}\nname: mine\noutput_dir: /home/someone/out\n"
    )
    write_json(run / "summary.json", asdict(summary()))
    write_text(run / "plots" / "a.png", "a")
    (run / "samples.csv.gz").write_bytes(gzip.compress(bytes(range(256)) * 99))
    write_status(run, "finished")
    return run


def held(place: Path) -> dict[str, bytes]:
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def refused(capsys, *arguments) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("absolute", [False, True])
def test_nothing_tells_whose_machine_it_was(folder, tmp_path, renamed, absolute):
    place = Path("docs/mine")
    publish(folder, place)
    write_text(place / "plots" / "old.png", "of an earlier run")
    if renamed:
        folder = folder.rename(tmp_path / "kept")
    publish(folder, place.resolve() if absolute else place)
    assert (place / "report.md").read_text() == (
        "machine: x; Linux\nStage by stage: `summary.json`; the command below makes `report.html`.\n"
        "python -m pipeline +exp=mine 'a.b=[1]' measure.rounds=3\n"
        "`python -m pipeline --config-dir=docs/mine +exp=again`: `docs/mine`\n"
    )
    assert (place / "exp/again.yaml").read_text() == (
        "# @package _global_\n# python -m pipeline --config-dir=docs/mine +exp=again\nname: mine\noutput_dir: outputs\n"
    )
    assert sorted(held(place)) == ["exp/again.yaml", "plots/a.png", "report.md", "samples.csv.gz", "summary.json"]
    assert [path.name for path in Path("docs").iterdir()] == ["mine"]


def test_a_target_elsewhere_is_named_by_its_last_part(folder, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    publish(folder, tmp_path / r"my \g<1>")
    report = (tmp_path / r"my \g<1>" / "report.md").read_text()
    assert r"'--config-dir=my \g<1>' +exp=again`: `my \g<1>`" in report and str(tmp_path) not in report


@pytest.mark.parametrize("target", [".", "out", f"out/mine/{RUN.name}", f"out/mine/{RUN.name}/plots"])
def test_the_folder_of_the_run_is_never_replaced(folder, tmp_path, capsys, target):
    before = held(tmp_path)
    assert refused(capsys, folder, target).startswith(f"{target}: holds the folder of the run, or lies in it")
    assert held(tmp_path) == before


@pytest.mark.parametrize("name", ["notes.txt", "report.md", "plots/a.png", ".hidden"])
def test_only_an_earlier_publication_is_replaced(folder, tmp_path, capsys, name):
    write_text(tmp_path / "docs" / name, "kept")
    assert refused(capsys, folder, "docs").startswith("docs: holds something else than an earlier publication")
    assert held(tmp_path / "docs") == {name: b"kept"}
    (tmp_path / "new").mkdir()
    assert main([str(folder), "new"]) == 0


def test_another_run_is_no_earlier_publication(folder, tmp_path, capsys):
    publish(folder, Path("docs"))
    write_status(tmp_path / "docs", "finished")
    assert "holds something else" in refused(capsys, folder, "docs")


def test_a_file_is_named_as_the_culprit(folder, tmp_path, capsys):
    write_text(tmp_path / "file", "kept")
    assert refused(capsys, folder, "file").startswith("file: is a file; give a folder")
    assert "cannot be published to file/below: " in refused(capsys, folder, "file/below")
    assert (tmp_path / "file").read_text() == "kept"


def test_what_could_not_be_repeated_or_read_is_refused(folder, capsys):
    whole = (folder / "samples.csv.gz").read_bytes()
    (folder / "samples.csv.gz").write_bytes(whole[: len(whole) // 2])
    assert "Compressed file ended" in refused(capsys, folder, "docs")
    (folder / "samples.csv.gz").write_bytes(whole)
    write_text(folder / "exp" / "again.yaml", "junk")
    assert "exp/again.yaml holds no configuration" in refused(capsys, folder, "docs")
    write_json(folder / "summary.json", asdict(replace(summary(), cases=())))
    assert "summary.json holds no case" in refused(capsys, folder, "docs")
    assert not Path("docs").exists()


@pytest.mark.parametrize("name", ["provenance.json", "report.md", "exp/again.yaml", "summary.json", "samples.csv.gz"])
@pytest.mark.parametrize("text", [None, "{", "3"])
def test_a_damaged_run_leaves_the_earlier_publication(folder, tmp_path, capsys, name, text):
    publish(folder, Path("docs"))
    before = held(tmp_path / "docs")
    if text is None:
        (folder / name).unlink()
    elif name.endswith(".json"):
        (folder / name).write_text(text)
    else:
        (folder / name).unlink()
        (folder / name).mkdir()
    assert str(folder) in refused(capsys, folder, "docs")
    assert held(tmp_path / "docs") == before
    assert {path.name for path in tmp_path.iterdir()} == {"out", "docs"}


@pytest.mark.parametrize("status", ["running", "killed"])
def test_only_a_run_that_came_to_its_end_is_published(folder, capsys, status):
    write_status(folder, status)
    told = f"{folder}: the run is {status}; only one that came to its end is published"
    assert refused(capsys, folder, "docs") == told
    assert not Path("docs").exists()


def test_what_is_no_run_is_refused(tmp_path, capsys):
    assert "is not the folder of a run with a report" in refused(capsys, tmp_path / "gone", tmp_path / "target")
    with pytest.raises(PublishError, match="is not the folder of a run"):
        publish(tmp_path / "gone", tmp_path / "target")


def test_usage(capsys):
    assert main(["--help"]) == 0 and capsys.readouterr().out.startswith("usage: ")
    assert refused(capsys, "one").startswith("usage: ") and refused(capsys, "--what", "x").startswith("usage: ")
