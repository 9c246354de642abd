"""What was timed, with what, and how to do it again."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from pipeline.evidence.summary import CaseSummary, Summary
from pipeline.results.folder.fingerprint import digest, fingerprint
from pipeline.results.folder.provenance import Provenance
from pipeline.results.folder.record import again
from pipeline.results.report.section import Section, bullets
from pipeline.results.table import WIDEST, by_workload, workload_digest
from pipeline.results.verdict import noise_floors
from pipeline.schema import Config


def timed(summary: Summary, config: Config, provenance: Provenance) -> Section:
    engine, measure = config.engine, config.measure
    packages = ", ".join(f"{name} {version}" for name, version in provenance.packages.items() if version)
    lines = {
        "scope": f"`{summary.scope}`, layers `{summary.layers}`, tp {summary.tp}, model `{config.model.name}`",
        "numbers": f"{engine.dtype}, KV `{engine.kv_layout}`, index `{engine.index_layout}`, on {engine.device}",
        "way": f"graph {engine.graph}, L2 {measure.l2}; {_window(config)}",
        **{f"workload `{name}`": _workload(cases) for name, cases in by_workload(summary).items()},
        **({"late": _late(summary)} if any(case.late for case in summary.cases) else {}),
        "noise floor": _noise(summary),
        "margin": f"±{100 * measure.margin:g} % counts as the same",
        "interval": f"{100 * measure.confidence:g} % for all at once: {summary.interval_method}",
        "percentiles": f"{summary.percentile_method}; least samples: "
        + ", ".join(f"{name} {count}" for name, count in summary.minimum_samples.items()),
        "machine": _machine(provenance),
        "software": f"Python {provenance.python}, {packages}; {commit(provenance)}",
        "fingerprint": f"machine, software, code and configuration `{digest(fingerprint(asdict(config), provenance))}`",
    }
    return Section("What was timed", bullets(f"{name}: {text}" for name, text in lines.items()), folded=True)


def reproduce(provenance: Provenance, folder: Path) -> Section:
    launched = Path(provenance.launch_directory)
    shown = folder.relative_to(launched) if folder.is_relative_to(launched) else folder
    return Section(
        "Reproduce",
        f"```sh\n{provenance.reproduce}\n```\n\n"
        f"At {commit(provenance)}. Or with nothing left to defaults: `{again(shown)}`. Run at {provenance.utc}; raw "
        f"samples, figures and configuration: `{shown.as_posix()}`",
    )


def commit(provenance: Provenance) -> str:
    if provenance.git_commit is None:
        return "no git checkout"
    return f"commit {provenance.git_commit[:12]}{' with uncommitted changes' if provenance.git_dirty else ''}"


def _window(config: Config) -> str:
    """What a time holds."""
    if config.engine.device == "cpu":
        return "a time is that of the call"
    launched = "launched call by call from an idle device, a time ends with the last kernel and holds the launches"
    replayed = "replayed as a graph, it is the device's alone, whose host is ahead"
    if config.engine.graph == "off":
        return launched
    if config.measure.scope != "stack":
        return replayed if config.engine.graph == "full" else f"{launched}; {replayed}"
    return f"steps that only decode: {replayed}; steps with prompts, and all in an eager mode: {launched}"


def _workload(cases: Sequence[CaseSummary]) -> str:
    requests, steps = _range(case.requests for case in cases), _range(case.steps for case in cases)
    rounds, warmup = _range(case.rounds for case in cases), _range(case.warmup_rounds for case in cases)
    return (
        f"requests {requests}, steps {steps}, rounds {rounds} after {warmup} of warm-up, arms in turns of balanced "
        f"random order; digest `{workload_digest(cases)}`"
    )


def _range(counts: Iterable[int]) -> str:
    found = sorted(set(counts))
    return f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _late(summary: Summary) -> str:
    late = sum(case.late for case in summary.cases)
    return f"in {late:,} replayed steps the device was done before the host had launched: these hold the host's time"


def _noise(summary: Summary) -> str:
    if summary.control is None:
        return "unknown, no control arm; only differences beyond the margin are called real"
    found = noise_floors(summary)
    if not found:
        return "unknown, too few rounds"
    if max(found) > WIDEST:
        return "unknown, too few blocks for this confidence"
    low, high = f"{100 * min(found):.1f}", f"{100 * max(found):.1f}"
    return f"{low} %" if low == high else f"{low} to {high} %, by case"


def _machine(provenance: Provenance) -> str:
    gpu = provenance.gpu
    name = f"{gpu.name}, driver {gpu.driver or 'unknown'}; " if gpu else ""
    return f"{name}{provenance.cpu}, {provenance.cores} cores; {provenance.platform}"
