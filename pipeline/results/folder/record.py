"""The folder of one run: `<output_dir>/<name>/<UTC stamp>-<id>/`. Every file is whole or absent.

config.yaml  provenance.json  status.json  summary.json     written by this file and status.py
samples/<case>.npz  samples.csv.gz                          raw values, as each case finishes
samples/<case>@<kind>.<stage>.npz                           of each stage alone, see breakdown/apart.py
samples/<case>@attempt-<n>.npz                              of an attempt that an arm's failure ended
benchmark/<case>/<arm>.json                                 vLLM's keys, see benchmark.py
report.md  report.html  plots/*.png  mlflow.json            report/, plots/, track.py
"""

import gzip
import math
import secrets
import shlex
import shutil
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf
from pydantic import TypeAdapter

from pipeline.evidence.samples import Samples
from pipeline.evidence.summary import Summary
from pipeline.results.folder.benchmark import benchmarks
from pipeline.results.folder.files import read_json, replacing, write_json, write_text
from pipeline.results.folder.provenance import Provenance
from pipeline.results.folder.status import close_dead, write_status
from pipeline.schema import Config, ConfigError


@dataclass(frozen=True)
class Outcome:
    folder: Path
    failed: bool


@dataclass(frozen=True)
class Run:
    """One invocation. `id` is the name of the folder and never repeats."""

    folder: Path
    config: Config
    provenance: Provenance

    @property
    def id(self) -> str:
        return self.folder.name


def open_run(config: Config, provenance: Provenance) -> Run:
    """Makes the folder, and closes runs of the study that died without a word. A relative output_dir counts from the
    launch directory. ConfigError where no folder can be made there."""
    try:
        return _opened(config, provenance)
    except OSError as error:
        raise ConfigError(
            [f"output_dir={config.output_dir}: no folder can be made there for {config.name}: {error}"]
        ) from error


def _opened(config: Config, provenance: Provenance) -> Run:
    study = Path(provenance.launch_directory) / config.output_dir / config.name
    close_dead(study)
    run = Run(_new_folder(study), config, provenance)
    write_status(run.folder, "running")
    write_text(run.folder / "config.yaml", config_yaml(config))
    write_text(run.folder / "exp" / "again.yaml", f"# @package _global_\n# {again(run.folder)}\n{config_yaml(config)}")
    write_json(run.folder / "provenance.json", asdict(provenance))
    return run


def again(folder: Path) -> str:
    """The command that runs exactly this configuration, with nothing left to today's defaults."""
    return shlex.join(["python", "-m", "pipeline", f"--config-dir={folder}", "+exp=again"])


def config_yaml(config: Config) -> str:
    """The resolved configuration; read back it gives an equal Config."""
    return OmegaConf.to_yaml(OmegaConf.create(asdict(config)))


def write_samples(run: Run, samples: Samples) -> None:
    """Adds one case: every field to an .npz, one line a measurement to samples.csv.gz."""
    name = f"{samples.case}@attempt-{samples.given_up}" if samples.given_up else samples.case
    with replacing(run.folder / "samples" / f"{name}.npz") as draft, draft.open("wb") as file:
        np.savez_compressed(file, **{field.name: getattr(samples, field.name) for field in fields(samples)})
    table = run.folder / "samples.csv.gz"
    with replacing(table) as draft:
        if table.exists():
            shutil.copyfile(table, draft)
        with gzip.open(draft, "at", encoding="utf-8", newline="") as file:
            _flat(samples).to_csv(file, index=False, header=not table.exists(), lineterminator="\n")


def write_summary(run: Run, summary: Summary) -> None:
    write_json(run.folder / "summary.json", asdict(summary))
    for (case, arm), values in benchmarks(summary, run.config, run.provenance).items():
        write_json(run.folder / "benchmark" / case / f"{arm}.json", values)


def read_config(folder: Path) -> Config:
    return TypeAdapter(Config).validate_python(OmegaConf.to_container(OmegaConf.load(folder / "config.yaml")))


def read_summary(folder: Path) -> Summary:
    """ValueError where nothing was summarised."""
    found = TypeAdapter(Summary).validate_python(_as_today(_with_nan(read_json(folder / "summary.json"))))
    if not found.cases:
        raise ValueError("summary.json holds no case")
    return found


def read_provenance(folder: Path) -> Provenance:
    return TypeAdapter(Provenance).validate_python(read_json(folder / "provenance.json"))


def failed_arms(summary: Summary) -> tuple[str, ...]:
    """Arms that failed their check in any case."""
    found = (arm.arm for case in summary.cases for arm in case.arms.values() if not arm.check.passed)
    return tuple(dict.fromkeys(found))


def failure(summary: Summary) -> str | None:
    """Why the run is no success though it came to its end."""
    failed, gate, broken = failed_arms(summary), summary.findings.gate, summary.findings.broken
    reasons = [f"arms that failed their check: {', '.join(failed)}"] if failed else []
    reasons += [f"the gate is not held: {gate.lines[-1]}; {gate.lines[0]}"] if gate and not gate.held else []
    reasons += [f"sections that could not be made: {'; '.join(broken)}"] if broken else []
    return "; ".join(reasons) or None


def _flat(samples: Samples) -> pd.DataFrame:
    rounds, steps, arms = np.indices(samples.seconds.shape).reshape(3, -1)
    return pd.DataFrame(
        {
            "case": samples.case,
            "context": samples.context,
            "round": rounds,
            "step": steps,
            "arm": np.array(samples.arms)[arms],
            "order": samples.order.reshape(-1),
            "seconds": samples.seconds.reshape(-1),
            "void": np.array(samples.void or [""] * len(samples.seconds), object)[rounds],
            "given_up": samples.given_up,
        }
    )


def _with_nan(tree: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN: the error of a failed check may be null."""
    checks = [arm["check"] for case in tree["cases"] for arm in case["arms"].values()]
    for check in checks:
        check["error"] = math.nan if check["error"] is None else check["error"]
    return tree


def _as_today(tree: dict[str, Any]) -> dict[str, Any]:
    """What earlier versions wrote: a headline in one line, rates without their unit, one break-even."""
    if isinstance(tree["headline"], str):
        tree["headline"] = tree["headline"].removesuffix(".").split("; ")
    for one in tree.get("findings", {}).get("applies", ()):
        if "break_even" in one:
            between, context = one.pop("between", None), one.pop("break_even")
            one["crossings"] = [dict(zip(("left", "right"), between, strict=True), context=context)] if between else []
    roof = tree.get("findings", {}).get("roof")
    if roof:
        for name in ("copy_bytes", "matrix_flops", "fp8_flops"):
            roof.setdefault(f"{name}_per_second", roof.pop(name, None))
    return tree


def _new_folder(study: Path) -> Path:
    while True:
        folder = study / f"{_stamp()}-{secrets.token_hex(3)}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder.resolve()


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
