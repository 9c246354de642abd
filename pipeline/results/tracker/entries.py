"""What a tracker is told, as plain values: one parent entry for the invocation, one child entry for each arm.

`<workload>/<curve>` is what a person looks at, with the context as step where the workload is a ladder; the parent has
the ratio of each arm. `<workload>.<key>` has every vLLM key and ratio; `model.<key>` and `engine.<key>` are the numbers
that a sweep varies. MLflow makes a section of charts of what stands before a slash and puts the others last.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.evidence.summary import ArmSummary, CaseSummary, Summary
from pipeline.results.folder.fingerprint import digest, fingerprint
from pipeline.results.folder.provenance import Provenance
from pipeline.results.folder.record import config_yaml
from pipeline.results.plots.palette import colours
from pipeline.results.table import by_workload, mean_key, workload_digest
from pipeline.results.tracker.findings import Figure, arm_figures, outcome_tags, overall_figures
from pipeline.schema import Config

LONGEST_KEY = 250
LONGEST_PARAM = 6000
LONGEST_TAG = 8000
ALLOWED_KEY = re.compile(r"[\w. :/-]+")
CURVES = ("ttft", "tpot", "step")


@dataclass(frozen=True)
class Metric:
    key: str
    value: float
    step: int


@dataclass(frozen=True)
class Entry:
    name: str
    params: dict[str, str]
    tags: dict[str, str]
    metrics: tuple[Metric, ...]
    passed: bool


def parent_entry(run_id: str, config: Config, provenance: Provenance, summary: Summary, note: str) -> Entry:
    """`note`: Markdown that the tracker shows as the description of the run."""
    params, elsewhere = _params(config, asdict(config))
    headline = "; ".join(summary.headline)
    tags = {
        "verdict": _fitting(headline, "too long for a tag: see summary.json"),
        "mlflow.note.content": _fitting(note, f"**{headline[:2000]}**\n\nThe table is in report.md."),
        "undefined": _fitting(_undefined(summary, list(summary.cases[0].arms)), "too many: see summary.json"),
        "baseline": summary.baseline,
        "control": summary.control or "",
        **{key: _fitting(text, "too long for a tag: see report.md") for key, text in outcome_tags(summary).items()},
    }
    metrics: list[Metric] = []
    for workload, cases in by_workload(summary).items():
        for case in cases:
            for arm in case.arms.values():
                metrics += _finite(f"{workload}/", {f"ratio.{arm.arm}": _ratio(case, arm)}, _step(case, cases))
    metrics += _known(overall_figures(summary))
    passed, gate = all(arm.check.passed for case in summary.cases for arm in case.arms.values()), summary.findings.gate
    return Entry(
        name=_name(run_id, provenance),
        params=params | _digests(summary),
        tags=tags | _common_tags(config, provenance, summary) | _left_out(elsewhere),
        metrics=(*metrics, *_config_metrics(config)),
        passed=passed and (gate is None or gate.held),
    )


def arm_entries(run_id: str, config: Config, provenance: Provenance, summary: Summary) -> dict[str, Entry]:
    return {arm: _arm_entry(run_id, config, provenance, summary, arm) for arm in summary.cases[0].arms}


def _arm_entry(run_id: str, config: Config, provenance: Provenance, summary: Summary, arm: str) -> Entry:
    tree = asdict(config)
    variants = tree.pop("arms")
    variant = variants.get(arm, variants[summary.baseline])
    params, elsewhere = _params(config, {**tree, "arm": arm, "variant": variant})
    metrics: list[Metric] = []
    for workload, cases in by_workload(summary).items():
        for case in cases:
            step = _step(case, cases)
            metrics += _finite(f"{workload}/", _curves(case, case.arms[arm], summary), step)
            metrics += _finite(f"{workload}.", _every_figure(case.arms[arm]), step)
    metrics += _known(arm_figures(summary, arm))
    failed = [case.case for case in summary.cases if not case.arms[arm].check.passed]
    tags = {
        "verdict": _fitting(_verdict(summary, arm), "too long for a tag: see summary.json"),
        "mlflow.runColor": colours(summary)[arm],
        "check": _fitting(f"FAILED in {', '.join(failed)}" if failed else "passed", "FAILED in many cases"),
        "role": {summary.baseline: "baseline", summary.control: "control"}.get(arm, "candidate"),
        "undefined": _fitting(_undefined(summary, [arm]), "too many: see summary.json"),
    }
    return Entry(
        name=_name(run_id, provenance, arm),
        params=params | _digests(summary),
        tags=tags | _common_tags(config, provenance, summary) | _left_out(elsewhere),
        metrics=(*metrics, *_config_metrics(config)),
        passed=not failed,
    )


def _name(run_id: str, provenance: Provenance, *first: str) -> str:
    """Tells the runs of a sweep apart: what was overridden, and the end of the run's id."""
    plain = [override.lstrip("+") for override in provenance.overrides]
    chosen = [override for override in plain if not override.startswith("exp=")]
    return " ".join([*first, *chosen, run_id.rpartition("-")[2]])


def _common_tags(config: Config, provenance: Provenance, summary: Summary) -> dict[str, str]:
    return {
        "scope": summary.scope,
        "layers": summary.layers,
        "tp": str(summary.tp),
        "device": provenance.device,
        "fingerprint": digest(fingerprint(asdict(config), provenance)),
        "git_dirty": "unknown" if provenance.git_dirty is None else str(provenance.git_dirty).lower(),
        "mlflow.source.git.commit": provenance.git_commit or "",
        "mlflow.source.name": _fitting(provenance.reproduce, f"experiment {config.name}"),
        "mlflow.source.type": "LOCAL",
    }


def _digests(summary: Summary) -> dict[str, str]:
    return {f"digest.{workload}": workload_digest(cases) for workload, cases in by_workload(summary).items()}


def _params(config: Config, tree: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Parameters, and the keys of those that do not fit a tracker and stay in config.yaml."""
    flat = {"config_sha256": hashlib.sha256(config_yaml(config).encode()).hexdigest(), **dict(_flat(tree))}
    fits = {
        key: value
        for key, value in flat.items()
        if len(value) <= LONGEST_PARAM and len(key) <= LONGEST_KEY and ALLOWED_KEY.fullmatch(key)
    }
    return fits, [key for key in flat if key not in fits]


def _left_out(keys: list[str]) -> dict[str, str]:
    return {"only_in_config.yaml": _fitting(", ".join(keys), f"{len(keys)} parameters")} if keys else {}


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """`a.b.0.c`: text as it is, everything else as JSON."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        value = {str(number): item for number, item in enumerate(value)}
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value if isinstance(value, str) else json.dumps(value)


def _config_metrics(config: Config) -> list[Metric]:
    """Numbers of the configuration: a tracker cannot order or plot parameters."""
    return [
        Metric(f"{part}.{key}", float(value), 0)
        for part in ("model", "engine")
        for key, value in asdict(getattr(config, part)).items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]


def _curves(case: CaseSummary, arm: ArmSummary, summary: Summary) -> dict[str, float]:
    means = {mean_key(metric).removeprefix("mean_"): arm.metrics.get(mean_key(metric)) for metric in CURVES}
    path = arm.path
    figures = {
        **means,
        "output_throughput": arm.metrics.get("output_throughput"),
        "ratio": 1.0 if arm.arm == summary.baseline and arm.metrics else _ratio(case, arm),
        "fast_path_share": path.skipped_rows / path.scorable_rows if path.expected and path.scorable_rows else None,
    }
    return {key: value for key, value in figures.items() if value is not None}


def _every_figure(arm: ArmSummary) -> dict[str, float]:
    figures = {**arm.metrics, "check_error": arm.check.error}
    for name, comparison in arm.comparisons.items():
        figures[f"ratio_{name}"] = comparison.ratio
        if comparison.low is not None and comparison.high is not None:
            figures |= {f"ratio_{name}_low": comparison.low, f"ratio_{name}_high": comparison.high}
    return figures | {f"ratio_{name}": ratio for name, ratio in arm.ratios.items()}


def _ratio(case: CaseSummary, arm: ArmSummary) -> float:
    """NaN where there is none."""
    comparison = arm.comparisons.get(case.primary)
    return comparison.ratio if comparison else math.nan


def _finite(prefix: str, figures: Mapping[str, float], step: int) -> list[Metric]:
    return [Metric(prefix + key, float(value), step) for key, value in figures.items() if math.isfinite(value)]


def _known(figures: Iterable[Figure]) -> list[Metric]:
    return [Metric(key, float(value), step) for key, value, step in figures if math.isfinite(value)]


def _step(case: CaseSummary, cases: list[CaseSummary]) -> int:
    return case.context if len(cases) > 1 else 0


def _verdict(summary: Summary, arm: str) -> str:
    """`decode: FASTER 1024 2047, SAME 2052; prefill: ...`"""
    lines = []
    for workload, cases in by_workload(summary).items():
        found: dict[str, list[str]] = {}
        for case in cases:
            comparison = case.arms[arm].comparisons.get(case.primary)
            if comparison:
                found.setdefault(comparison.verdict, []).append(str(case.context))
        if found:
            lines.append(f"{workload}: " + ", ".join(f"{name} {' '.join(where)}" for name, where in found.items()))
    return "; ".join(lines) or ("baseline" if arm == summary.baseline else "none")


def _undefined(summary: Summary, arms: list[str]) -> str:
    """Each reason once, with the keys it explains."""
    found: dict[str, dict[str, None]] = {}
    for workload, cases in by_workload(summary).items():
        for case in cases:
            for arm in arms:
                for key, reason in case.arms[arm].undefined.items():
                    found.setdefault(reason, {})[f"{workload}/{key}"] = None
    return "; ".join(f"{', '.join(keys)}: {reason}" for reason, keys in found.items()) or "none"


def _fitting(text: str, otherwise: str) -> str:
    return text if len(text) <= LONGEST_TAG else otherwise
