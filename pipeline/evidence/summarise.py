"""From the samples of a case to its figures and verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evidence import metrics, stats
from pipeline.evidence.latency import latency
from pipeline.evidence.metrics import Metrics
from pipeline.evidence.samples import Samples
from pipeline.evidence.stats import Rule
from pipeline.evidence.summary import ArmSummary, CaseSummary, Check, Comparison, FastPath
from pipeline.work.schedule import Step
from pipeline.work.workload import Case, Request

MINIMUM_SAMPLES = {**metrics.MINIMUM_SAMPLES, "interval": stats.MINIMUM_ROUNDS}


@dataclass(frozen=True, eq=False)
class _Figures:
    metrics: Metrics
    per_round: dict[str, np.ndarray]  # what is compared: mean seconds [round]


def summarise(
    case: Case,
    steps: Sequence[Step],
    samples: Samples,
    checks: Mapping[str, Check],
    rule: Rule,
    control: str | None,
) -> CaseSummary:
    """One summary for each checked arm, the first is the baseline. An arm that failed its check gets no number."""
    figures = {
        arm: _figures(case.requests, steps, samples.scope, samples.seconds[:, :, number])
        for number, arm in enumerate(samples.arms)
    }
    sound = {arm: figures[arm].per_round for arm in samples.arms if checks[arm].passed}
    baseline = next(iter(checks))
    noise = _noise(sound, baseline, control, rule)
    arms = {}
    for arm, check in checks.items():
        found = figures[arm].metrics if arm in sound else _withheld(figures.values(), check)
        comparisons, missing = _comparisons(sound, arm, baseline, noise, rule) if arm in sound else ({}, {})
        bounds = {name: stats.mean_interval(seconds, rule) for name, seconds in sound.get(arm, {}).items()}
        intervals = {name: interval for name, interval in bounds.items() if interval is not None}
        path = fast_path(samples, arm)
        arms[arm] = ArmSummary(arm, check, found.values, found.undefined | missing, path, comparisons, intervals)
    return CaseSummary(
        case=case.name,
        workload=case.workload,
        context=case.context,
        digest=case.digest,
        scope=samples.scope,
        primary=_primary(case.requests, samples.scope),
        arms=arms,
        requests=len(case.requests),
        steps=len(steps),
        rounds=len(samples.seconds),
        warmup_rounds=samples.warmup_rounds,
    )


def fast_path(samples: Samples, arm: str) -> FastPath:
    """All zero for an arm that could not run."""
    if arm not in samples.arms:
        return FastPath(0, 0, 0, 0, expected=False)
    number = samples.arms.index(arm)
    skipped = samples.skipped[:, number]
    return FastPath(
        skipped_rows=int(skipped.sum()),
        scorable_rows=int(samples.scorable.sum()),
        fast_steps=int((skipped > 0).sum()),
        steps=int((samples.scorable > 0).sum()),
        expected=samples.shortcut[number],
    )


def _primary(requests: Sequence[Request], scope: str) -> str:
    if scope != "stack":
        return "step"
    return "tpot" if any(request.output_len > 1 for request in requests) else "ttft"


def _figures(requests: Sequence[Request], steps: Sequence[Step], scope: str, seconds: np.ndarray) -> _Figures:
    """seconds [round, step] of one arm."""
    if scope != "stack":
        return _Figures(metrics.calls(seconds), {"step": seconds.mean(axis=1)})
    times = latency(requests, steps, seconds)
    samples = {"ttft": times.ttft, "tpot": times.tpot, "itl": times.itl, "e2el": times.e2el}
    per_round = {name: values.mean(axis=1) for name, values in samples.items() if values.size}
    return _Figures(metrics.serving(times), per_round | {"duration": times.duration})


def _withheld(figures: Iterable[_Figures], check: Check) -> Metrics:
    keys = [
        key
        for held in figures
        for key in (*held.metrics.values, *held.metrics.undefined, *(f"ratio_{name}" for name in held.per_round))
    ]
    return Metrics({}, dict.fromkeys(keys or ["metrics"], f"the arm failed its check: {check.detail}"))


def _noise(
    sound: dict[str, dict[str, np.ndarray]], baseline: str, control: str | None, rule: Rule
) -> dict[str, float | None]:
    """By metric; empty without a control."""
    if control not in sound or baseline not in sound:
        return {}
    return {
        name: stats.noise_floor(stats.paired_interval(sound[control][name], seconds, rule))
        for name, seconds in sound[baseline].items()
        if _took_time(sound[control][name], seconds)
    }


def _comparisons(
    sound: dict[str, dict[str, np.ndarray]], arm: str, baseline: str, noise: dict[str, float | None], rule: Rule
) -> tuple[dict[str, Comparison], dict[str, str]]:
    """The comparisons of an arm, and why others are missing."""
    if arm == baseline:
        return {}, {}
    if baseline not in sound:
        return {}, {f"ratio_{name}": "the baseline failed its check" for name in sound[arm]}
    found, missing = {}, {}
    for name, seconds in sound[arm].items():
        if not _took_time(seconds, sound[baseline][name]):
            missing[f"ratio_{name}"] = "the clock saw no time pass in a round"
            continue
        interval = stats.paired_interval(seconds, sound[baseline][name], rule)
        found[name] = Comparison(
            metric=name,
            ratio=interval.ratio,
            low=interval.low,
            high=interval.high,
            verdict=stats.verdict(interval, noise.get(name), rule.margin),
            noise=noise.get(name),
            margin=rule.margin,
            confidence=rule.confidence,
            rounds=interval.rounds,
        )
    return found, missing


def _took_time(*seconds: np.ndarray) -> bool:
    return all((part > 0).all() for part in seconds)
