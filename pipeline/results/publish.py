"""What of a run goes into a repository: report, plots, figures, raw samples and the configuration, without the paths
and the platform of the machine that it ran on.

`python -m pipeline.results.publish FOLDER TARGET`
"""

import gzip
import re
import shlex
import shutil
import sys
import zlib
from pathlib import Path

from omegaconf import OmegaConf

from pipeline.results.folder.ended import DAMAGED
from pipeline.results.folder.files import replacing_folder, write_text
from pipeline.results.folder.record import again, read_provenance, read_summary
from pipeline.results.folder.status import ENDED, close_if_dead, read_status
from pipeline.results.report.stages import ELSEWHERE

PROJECT = Path(__file__).resolve().parents[2]
USAGE = (
    "usage: python -m pipeline.results.publish FOLDER TARGET: the folder of a run that came to its end, and where to"
)
WHOLE = ("summary.json", "samples.csv.gz")
MARKS = ("summary.json", "report.md", "exp/again.yaml")
HELD = {"summary.json", "samples.csv.gz", "report.md", "exp", "plots"}
OF_THE_PLACE = re.compile(r" '?(output_dir|track\.\w+)=[^\s`]+")
STAGES = "Stage by stage: `summary.json`; the command below makes `report.html`."


class PublishError(ValueError):
    """Why nothing was published, on one line."""


def publish(folder: Path, target: Path) -> None:
    """Replaces an earlier publication in `target`. PublishError where `folder` is not that of an ended run with a
    report, or `target` holds anything else; then nothing has changed."""
    folder, place = folder.resolve(), target.resolve()
    _refuse(folder, place, target)
    report, configuration = _read(folder, _shown(place))
    try:
        with replacing_folder(place) as draft:
            write_text(draft / "report.md", report)
            write_text(draft / "exp" / "again.yaml", configuration)
            for name in WHOLE:
                shutil.copyfile(folder / name, draft / name)
            if (folder / "plots").is_dir():
                shutil.copytree(folder / "plots", draft / "plots")
    except OSError as error:
        raise PublishError(f"{folder} cannot be published to {target}: {error}") from error


def _refuse(folder: Path, place: Path, target: Path) -> None:
    if place.is_relative_to(folder) or folder.is_relative_to(place):
        raise PublishError(f"{target}: holds the folder of the run, or lies in it; give another folder")
    if not place.exists():
        return
    if not place.is_dir():
        raise PublishError(f"{target}: is a file; give a folder, which may be new")
    names = {path.name for path in place.iterdir()}
    if names and not (names <= HELD and all((place / mark).is_file() for mark in MARKS)):
        raise PublishError(f"{target}: holds something else than an earlier publication; give a new or empty folder")


def _read(folder: Path, shown: Path) -> tuple[str, str]:
    """Report and configuration as they are published."""
    try:
        close_if_dead(folder)
        status, provenance = read_status(folder), read_provenance(folder)
        read_summary(folder)
        with gzip.open(folder / "samples.csv.gz") as samples:
            while samples.read(1 << 20):
                pass
        report, configuration = ((folder / name).read_text(encoding="utf-8") for name in ("report.md", MARKS[-1]))
        if "name" not in OmegaConf.create(configuration):
            raise ValueError(f"{MARKS[-1]} holds no configuration")
        origin = _origin(configuration)
    except (*DAMAGED, EOFError, zlib.error) as error:
        reason = (" ".join(str(error).split()) or type(error).__name__)[:300]
        raise PublishError(f"{folder} is not the folder of a run with a report: {reason}") from error
    if status not in ENDED:
        raise PublishError(f"{folder}: the run is {status}; only one that came to its end is published")
    report, configuration = (
        _placed(text, {folder, origin or folder}, shown).replace(
            provenance.platform, provenance.platform.partition("-")[0]
        )
        for text in (report, configuration)
    )
    configuration = re.sub(r"^output_dir: .*$", "output_dir: outputs", configuration, flags=re.M)
    return OF_THE_PLACE.sub("", report).replace(ELSEWHERE, STAGES), OF_THE_PLACE.sub("", configuration)


def _origin(configuration: str) -> Path | None:
    """Where the run was made: its folder may have another name by now."""
    commands = (line[1:] for line in configuration.splitlines() if line.startswith("# python "))
    options = (word for command in commands for word in shlex.split(command))
    found = (word.partition("=")[2] for word in options if word.startswith("--config-dir="))
    return next(map(Path, found), None)


def _placed(text: str, folders: set[Path], shown: Path) -> str:
    for folder in folders:
        text = text.replace(again(folder), again(shown)).replace(str(folder), str(shown))
    for folder in folders:
        text = re.sub(rf"[^\s`'=\"]*/{re.escape(folder.name)}(?![\w-])", lambda _: str(shown), text)
    return text


def _shown(place: Path) -> Path:
    for root in (Path.cwd(), PROJECT):
        if place.is_relative_to(root):
            return place.relative_to(root)
    return Path(place.name)


def main(arguments: list[str]) -> int:
    if arguments in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    if len(arguments) != 2 or any(argument.startswith("-") for argument in arguments):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        publish(*map(Path, arguments))
    except PublishError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
