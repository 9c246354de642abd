from pathlib import Path

import pytest

from pipeline.results.folder.files import write_json, write_text
from pipeline.results.publish import main, publish

PROVENANCE = {
    "command": "", "overrides": [], "launch_directory": "/home/someone", "git_commit": None, "git_dirty": None,
    "python": "3.12", "packages": {}, "platform": "Linux-6.1-of-someone", "cpu": "x", "cores": 1, "gpu": None,
    "utc": "",
}  # fmt: skip
REPORT = """machine: x; Linux-6.1-of-someone
python -m pipeline +exp=mine 'a.b=[1]' track.enabled=false output_dir=/home/someone/out measure.rounds=3
`python -m pipeline --config-dir=/home/someone/out/mine/20260101T0000Z-a +exp=again`: `out/mine/20260101T0000Z-a`
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    run = tmp_path / "out" / "mine" / "20260101T0000Z-a"
    write_json(run / "provenance.json", PROVENANCE)
    write_text(run / "report.md", REPORT)
    write_text(run / "exp" / "again.yaml", "name: mine\noutput_dir: /home/someone/out\n")
    for name in ("summary.json", "samples.csv.gz", "plots/a.png"):
        write_text(run / name, name)
    return run


def test_nothing_tells_whose_machine_it_was(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "docs" / "mine" / "plots" / "old.png", "of an earlier run")
    publish(folder, Path("docs/mine"))
    assert (tmp_path / "docs/mine/report.md").read_text() == (
        "machine: x; Linux\npython -m pipeline +exp=mine 'a.b=[1]' measure.rounds=3\n"
        "`python -m pipeline --config-dir=docs/mine +exp=again`: `docs/mine`\n"
    )
    assert (tmp_path / "docs/mine/exp/again.yaml").read_text() == "name: mine\noutput_dir: outputs\n"
    held = sorted(path.relative_to(tmp_path / "docs/mine").as_posix() for path in (tmp_path / "docs").rglob("*.*"))
    assert held == ["exp/again.yaml", "plots/a.png", "report.md", "samples.csv.gz", "summary.json"]


def test_what_is_no_run_is_refused_and_the_target_stays(tmp_path, capsys):
    write_text(tmp_path / "target" / "report.md", "kept")
    assert main([str(tmp_path / "gone"), str(tmp_path / "target")]) == 2
    assert "is not the folder of a run with a report" in capsys.readouterr().err
    assert (tmp_path / "target" / "report.md").read_text() == "kept"
    assert main(["one"]) == 2
