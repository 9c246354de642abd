"""Arms of a case against its baseline."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pipeline.evidence import stats
from pipeline.evidence.stats import Interval, Rule
from pipeline.evidence.summary import Comparison
from pipeline.schema import Config

Seconds = Mapping[str, np.ndarray]  # of every arm [round]


@dataclass(frozen=True)
class Roles:
    """All other arms are candidates."""

    baseline: str
    control: str | None

    def candidates(self, arms: Iterable[str]) -> list[str]:
        return [arm for arm in arms if arm not in (self.baseline, self.control)]


def rule_for(config: Config, ratios: int) -> Rule:
    """`ratios` with a verdict that every arm but the baseline has, the control among them (see `family`)."""
    asked = config.measure
    compared = max(1, len(config.arms) - 1) + asked.control
    return Rule(
        margin=asked.margin,
        confidence=asked.confidence,
        resamples=asked.resamples,
        seed=config.seed,
        block_rounds=asked.block_rounds,
        comparisons=ratios * compared,
        planned_blocks=max(1, asked.rounds // asked.block_rounds) if asked.stop == "decided" else None,
        resolution=stats.resolution(asked.scope),
    )


def comparison(
    metric: str, arm: str, seconds: Seconds, roles: Roles, rule: Rule, confidence: float
) -> Comparison | None:
    """None where the clock saw no time pass."""
    interval = ratio(arm, seconds, roles, rule, confidence)
    if interval is None:
        return None
    control = ratio(roles.control, seconds, roles, rule, confidence)
    found = compared(metric, interval, control, rule, confidence)
    if found.verdict != "UNDECIDED":
        return found
    return replace(found, rounds_needed=stats.rounds_needed(interval, control, rule))


def compared(metric: str, interval: Interval, control: Interval | None, rule: Rule, confidence: float) -> Comparison:
    return Comparison(
        metric=metric,
        ratio=interval.ratio,
        low=interval.low,
        high=interval.high,
        verdict=stats.verdict(interval, control, rule.margin, rule.resolution),
        noise=stats.noise_floor(control, rule.resolution),
        margin=rule.margin,
        confidence=confidence,
        rounds=interval.rounds,
        blocks=interval.blocks,
        bias=stats.certain_bias(control),
    )


def ratio(arm: str | None, seconds: Seconds, roles: Roles, rule: Rule, confidence: float) -> Interval | None:
    pair = _pair(arm, seconds, roles)
    return None if pair is None else stats.paired_interval(*pair, rule, confidence)


def bare_ratio(arm: str, seconds: Seconds, roles: Roles) -> float | None:
    """Of a metric that is not judged, the geometric mean over rounds. None where the clock saw no time pass."""
    pair = _pair(arm, seconds, roles)
    return None if pair is None else float(np.exp(np.log(pair[0] / pair[1]).mean()))


def case_confidence(primary: Seconds, roles: Roles, rule: Rule) -> float:
    """Of the intervals of a case that ended: at a look that decided it, or with the budget spent."""
    return settled(primary, roles, rule) or stats.final_confidence(rule, _blocks(primary, rule))


def settled(primary: Seconds, roles: Roles, rule: Rule) -> float | None:
    """The confidence at which every candidate is decided at this look; None where one is not, or none is planned.

    SAME decides only where it would remain so to the end of the budget: more rounds might find a small difference.
    """
    confidence = stats.look_confidence(rule, _blocks(primary, rule))
    candidates = roles.candidates(primary)
    if confidence is None or not candidates:
        return None
    control = ratio(roles.control, primary, roles, rule, confidence)
    for arm in candidates:
        interval = ratio(arm, primary, roles, rule, confidence)
        found = "UNDECIDED" if interval is None else stats.verdict(interval, control, rule.margin, rule.resolution)
        if found == "SAME":
            found = stats.foreseen(interval, control, rule.planned_blocks, rule)
            found = "UNDECIDED" if found != "SAME" else found
        if found == "UNDECIDED":
            return None
    return confidence


def _pair(arm: str | None, seconds: Seconds, roles: Roles) -> list[np.ndarray] | None:
    pair = [seconds.get(name) for name in (arm, roles.baseline)]
    if any(values is None or not len(values) or not (values > 0).all() for values in pair):
        return None
    return pair


def _blocks(primary: Seconds, rule: Rule) -> int:
    rounds = max((len(values) for values in primary.values()), default=0)
    return max(1, rounds // rule.block_rounds)
