"""From the samples of a case to its figures and verdicts."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.engine.stack import described
from pipeline.evidence import stats
from pipeline.evidence.figures import metrics
from pipeline.evidence.figures.compare import Roles, bare_ratio, case_confidence, comparison, settled
from pipeline.evidence.figures.counted import counted, tokens
from pipeline.evidence.figures.family import judged, primary
from pipeline.evidence.figures.latency import latency
from pipeline.evidence.figures.metrics import Metrics
from pipeline.evidence.findings import Findings
from pipeline.evidence.samples import Samples, capped, counting
from pipeline.evidence.stats import Rule
from pipeline.evidence.summary import ArmSummary, CaseSummary, Check, Comparison, FastPath, Overall, Summary
from pipeline.schema import Config
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
    first = {arm: found.per_round[judged_by] for arm, found in figures.items() if judged_by in found.per_round}
    shown, confidence = judged(case.requests, samples.scope), case_confidence(first, roles, rule)
    among = {metric: counted(metric, case.requests, steps) for metric in shown}
    arms = {}
    for arm, check in checks.items():
        found = figures[arm].metrics if arm in sound else _withheld(figures.values(), check)
        compared, missing = _compared(sound, arm, shown, roles, rule, confidence) if arm in sound else ({}, {})
        comparisons = {name: one for name, one in compared.items() if isinstance(one, Comparison)}
        ratios = {name: one for name, one in compared.items() if name not in comparisons}
        bounds = {name: stats.mean_interval(values, rule) for name, values in sound.get(arm, {}).items()}
        intervals = {name: interval for name, interval in bounds.items() if interval is not None}
        paths = {metric: fast_path(samples, arm, among[metric]) for metric in shown}
        values = found.values | metrics.in_cycles(found.values, judged_by, samples.clock_mhz)
        if arm in sound and samples.scope == "stack":
            values |= _token_rates(steps, among, seconds[:, :, samples.arms.index(arm)])
        arms[arm] = ArmSummary(
            arm, check, values, found.undefined | missing, paths[judged_by], comparisons, intervals, ratios, paths
        )
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
        tokens=sum(step.tokens for step in steps) // len(steps),
        rounds=len(seconds),
        warmup_rounds=samples.warmup_rounds,
        mode=samples.mode,
        clock_mhz=None if math.isnan(samples.clock_mhz) else samples.clock_mhz,
        void=_too_often_void(samples),
        outliers={arm: stats.outliers(values) for arm, values in first.items() if (values > 0).all()},
        judged=shown,
        late=sum(np.array(samples.late, int)[samples.counts].tolist()) if samples.late else 0,
    )


def experiment(
    config: Config,
    cases: Sequence[CaseSummary],
    roles: Roles,
    rule: Rule,
    headline: Sequence[str],
    overall: Sequence[Overall] = (),
    findings: Findings | None = None,
) -> Summary:
    """All cases together. Of a config whose engine is resolved."""
    return Summary(
        cases=tuple(cases),
        baseline=roles.baseline,
        control=roles.control,
        scope=config.measure.scope,
        layers=described(config.model, config.engine),
        tp=config.engine.tp,
        percentile_method=metrics.PERCENTILE_METHOD,
        interval_method=stats.interval_method(rule),
        minimum_samples=MINIMUM_SAMPLES,
        headline=tuple(headline),
        overall=tuple(overall),
        findings=findings or Findings(),
    )


def decided(case: Case, steps: Sequence[Step], roles: Roles, rule: Rule, samples: Samples) -> bool:
    """Whether a case that is being measured may end: void rounds count for nothing as long as it goes on."""
    seconds = samples.seconds[counting(samples.void, len(samples.seconds), least=0)]
    if stats.look_confidence(rule, len(seconds) // rule.block_rounds) is None:
        return False
    judged_by = primary(case.requests, samples.scope)
    first = {
        arm: _figures(case.requests, steps, samples.scope, seconds[:, :, number]).per_round[judged_by]
        for number, arm in enumerate(samples.arms)
    }
    return settled(first, roles, rule) is not None


def fast_path(samples: Samples, arm: str, among: np.ndarray) -> FastPath:
    """Over the steps among bool [step]. All zero for an arm that could not run."""
    if arm not in samples.arms:
        return FastPath(0, 0, 0, 0, expected=False)
    number = samples.arms.index(arm)
    skipped, scorable = samples.skipped[among, number], samples.scorable[among]
    return FastPath(
        skipped_rows=int(skipped.sum()),
        scorable_rows=int(scorable.sum()),
        fast_steps=int((skipped > 0).sum()),
        steps=int((scorable > 0).sum()),
        expected=samples.shortcut[number],
    )


def _too_often_void(samples: Samples) -> str:
    sound = samples.void.count("") if samples.void else len(samples.seconds)
    if sound == len(samples.seconds) or not samples.counts.all() or capped(samples.void):
        return ""
    return f"{sound} of {len(samples.void)}; {', '.join(dict.fromkeys(filter(None, samples.void)))}"


def _figures(requests: Sequence[Request], steps: Sequence[Step], scope: str, seconds: np.ndarray) -> _Figures:
    """seconds [round, step] of one arm."""
    if scope != "stack":
        return _Figures(metrics.calls(seconds), {"step": seconds.mean(axis=1)})
    times = latency(requests, steps, seconds)
    samples = {"ttft": times.ttft, "tpot": times.tpot, "itl": times.itl, "e2el": times.e2el}
    per_round = {name: values.mean(axis=1) for name, values in samples.items() if values.size}
    return _Figures(metrics.serving(times), per_round | {"duration": times.duration})


def _token_rates(steps: Sequence[Step], among: Mapping[str, np.ndarray], seconds: np.ndarray) -> dict[str, float]:
    """Tokens a second in the steps that each metric is made of; seconds [round, step]."""
    found = {}
    for metric, chosen in among.items():
        took = float(seconds[:, chosen].sum())
        if took:
            found[f"{metric}_step_throughput"] = tokens(metric, steps, chosen) * len(seconds) / took
    return found


def _withheld(figures: Iterable[_Figures], check: Check) -> Metrics:
    keys = [
        key
        for held in figures
        for key in (*held.metrics.values, *held.metrics.undefined, *(f"ratio_{name}" for name in held.per_round))
    ]
    return Metrics({}, dict.fromkeys(keys or ["metrics"], f"the arm failed its check: {check.detail}"))


def _compared(
    sound: dict[str, dict[str, np.ndarray]],
    arm: str,
    shown: Sequence[str],
    roles: Roles,
    rule: Rule,
    confidence: float,
) -> tuple[dict[str, Comparison | float], dict[str, str]]:
    """An arm by metric: comparisons of those that are shown, bare ratios of the others; and why any are missing."""
    if arm == roles.baseline:
        return {}, {}
    if roles.baseline not in sound:
        return {}, {f"ratio_{name}": "the baseline failed its check" for name in sound[arm]}
    found, missing = {}, {}
    for name in sound[arm]:
        seconds = {other: per_round[name] for other, per_round in sound.items()}
        judging = name in shown
        made = comparison(name, arm, seconds, roles, rule, confidence) if judging else bare_ratio(arm, seconds, roles)
        if made is None:
            missing[f"ratio_{name}"] = "the clock saw no time pass in a round"
        else:
            found[name] = made
    return found, missing
