"""What of a run goes into a repository: report, plots, figures, raw samples and the configuration, without the paths
and the platform of the machine that it ran on.

`python -m pipeline.results.publish FOLDER TARGET`
"""

import re
import shutil
import sys
from pathlib import Path

from pipeline.results.folder.files import write_text
from pipeline.results.folder.record import read_provenance

WHOLE = ("summary.json", "samples.csv.gz")
OF_THE_PLACE = re.compile(r" '?(output_dir|track\.\w+)=[^\s`]+")


def publish(folder: Path, target: Path) -> None:
    """Replaces what `target` held. OSError or ValueError where `folder` is not that of a run with a report."""
    provenance = read_provenance(folder)
    place = re.compile(rf"[^\s`'=\"]*/{re.escape(folder.name)}")

    def impersonal(text: str) -> str:
        text = OF_THE_PLACE.sub("", place.sub(target.as_posix(), text))
        return text.replace(provenance.platform, provenance.platform.partition("-")[0])

    report = impersonal((folder / "report.md").read_text(encoding="utf-8"))
    again = impersonal((folder / "exp" / "again.yaml").read_text(encoding="utf-8"))
    shutil.rmtree(target, ignore_errors=True)
    write_text(target / "report.md", report)
    write_text(target / "exp" / "again.yaml", re.sub(r"^output_dir: .*$", "output_dir: outputs", again, flags=re.M))
    for name in WHOLE:
        shutil.copyfile(folder / name, target / name)
    if (folder / "plots").is_dir():
        shutil.copytree(folder / "plots", target / "plots")


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(
            "usage: python -m pipeline.results.publish FOLDER TARGET: the folder of a run, and where to",
            file=sys.stderr,
        )
        return 2
    folder, target = map(Path, arguments)
    try:
        publish(folder.resolve(), target)
    except (OSError, ValueError) as error:
        print(f"{folder} is not the folder of a run with a report: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
