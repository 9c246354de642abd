"""From the samples of a case to its figures and verdicts."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evidence import metrics, stats
from pipeline.evidence.compare import Roles, case_confidence, comparison, settled
from pipeline.evidence.latency import latency
from pipeline.evidence.metrics import Metrics
from pipeline.evidence.samples import Samples
from pipeline.evidence.stats import Rule
from pipeline.evidence.summary import ArmSummary, CaseSummary, Check, Comparison, FastPath
from pipeline.work.schedule import Step
from pipeline.work.workload import Case, Request

MINIMUM_SAMPLES = {**metrics.MINIMUM_SAMPLES, "interval": stats.MINIMUM_BLOCKS}


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
    seconds = samples.seconds[samples.counts]
    figures = {
        arm: _figures(case.requests, steps, samples.scope, seconds[:, :, number])
        for number, arm in enumerate(samples.arms)
    }
    sound = {arm: figures[arm].per_round for arm in samples.arms if checks[arm].passed}
    roles, judged_by = Roles(next(iter(checks)), control), primary(case.requests, samples.scope)
    judged = {arm: found.per_round[judged_by] for arm, found in figures.items() if judged_by in found.per_round}
    confidence = case_confidence(judged, roles, rule)
    arms = {}
    for arm, check in checks.items():
        found = figures[arm].metrics if arm in sound else _withheld(figures.values(), check)
        comparisons, missing = _comparisons(sound, arm, roles, rule, confidence) if arm in sound else ({}, {})
        bounds = {name: stats.mean_interval(values, rule) for name, values in sound.get(arm, {}).items()}
        intervals = {name: interval for name, interval in bounds.items() if interval is not None}
        path = fast_path(samples, arm)
        values = found.values | metrics.in_cycles(found.values, judged_by, samples.clock_mhz)
        arms[arm] = ArmSummary(arm, check, values, found.undefined | missing, path, comparisons, intervals)
    return CaseSummary(
        case=case.name,
        workload=case.workload,
        context=case.context,
        digest=case.digest,
        scope=samples.scope,
        primary=judged_by,
        arms=arms,
        requests=len(case.requests),
        steps=len(steps),
        rounds=len(seconds),
        warmup_rounds=samples.warmup_rounds,
        mode=samples.mode,
        clock_mhz=None if math.isnan(samples.clock_mhz) else samples.clock_mhz,
        void=_void_throughout(samples),
        outliers={arm: stats.outliers(values) for arm, values in judged.items() if (values > 0).all()},
    )


def decided(case: Case, steps: Sequence[Step], roles: Roles, rule: Rule, samples: Samples) -> bool:
    """Whether a case that is being measured may end: void rounds count for nothing as long as it goes on."""
    seconds = samples.seconds[[not reason for reason in samples.void] or slice(None)]
    if stats.look_confidence(rule, len(seconds) // rule.block_rounds) is None:
        return False
    judged_by = primary(case.requests, samples.scope)
    judged = {
        arm: _figures(case.requests, steps, samples.scope, seconds[:, :, number]).per_round[judged_by]
        for number, arm in enumerate(samples.arms)
    }
    return settled(judged, roles, rule) is not None


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


def _void_throughout(samples: Samples) -> str:
    return ", ".join(dict.fromkeys(samples.void)) if samples.void and all(samples.void) else ""


def primary(requests: Sequence[Request], scope: str) -> str:
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


def _comparisons(
    sound: dict[str, dict[str, np.ndarray]], arm: str, roles: Roles, rule: Rule, confidence: float
) -> tuple[dict[str, Comparison], dict[str, str]]:
    """The comparisons of an arm, and why others are missing."""
    if arm == roles.baseline:
        return {}, {}
    if roles.baseline not in sound:
        return {}, {f"ratio_{name}": "the baseline failed its check" for name in sound[arm]}
    found, missing = {}, {}
    for name in sound[arm]:
        seconds = {other: per_round[name] for other, per_round in sound.items()}
        made = comparison(name, arm, seconds, roles, rule, confidence)
        if made:
            found[name] = made
        else:
            missing[f"ratio_{name}"] = "the clock saw no time pass in a round"
    return found, missing
