"""Does the instrument find what was put in, and nothing else? Many short runs of one recording, each judged as any run.

Arms have caches of their own, as in any experiment, and where a cache lies costs time too: an arm may be shifted for
good, and its interval does not know. The control, which has caches of its own as well, shows how much that can be, and
a verdict asks for a difference beyond all that the control's interval allows. What has to hold the truth is therefore
what a verdict uses: the arm's interval, widened at both ends by the noise floor of the same run.

The truth of a delay is known apart from the judgement: its seconds were measured alone, and what they make of a run is
computed on the baseline's own rounds. A delay of fixed length is a smaller share where the machine is slower, so every
run has a truth of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.evidence.detected import Bar, Detection, SelfTest
from pipeline.evidence.figures.compare import Roles, case_confidence, comparison
from pipeline.evidence.figures.family import primary
from pipeline.evidence.figures.latency import latency
from pipeline.evidence.samples import Samples
from pipeline.evidence.stats import Rule
from pipeline.evidence.summarise import decided
from pipeline.evidence.summary import Comparison
from pipeline.work.schedule import Step
from pipeline.work.workload import Case

QUIET, FOUND, COVERED = 0.95, 0.9, 0.9  # least shares of the runs


@dataclass(frozen=True)
class Delay:
    """`share` of the step is asked for; `seconds` is what it adds to a step. Both are 0 for A against A."""

    arm: str
    share: float
    seconds: float


@dataclass(frozen=True)
class Judged:
    """One run: what was found, and the ratio that is true."""

    found: Comparison
    truth: float

    @property
    def covers(self) -> bool:
        """With the noise floor."""
        return self._within(1 + (self.found.noise or 0.0))

    @property
    def covers_alone(self) -> bool:
        return self._within(1.0)

    def _within(self, wider: float) -> bool:
        found = self.found
        return found.low is not None and found.low / wider <= self.truth <= found.high * wider


def detect(
    case: Case,
    steps: Sequence[Step],
    samples: Samples,
    rule: Rule,
    control: str,
    delays: Sequence[Delay],
    rounds: int,
) -> tuple[Detection, ...]:
    """Every delay in every run, each time as if baseline, control and this arm were all that was measured."""
    runs, metric = cut(samples, rounds), primary(case.requests, samples.scope)
    roles = Roles(samples.arms[0], control)

    def judged(run: Samples, delay: Delay) -> Judged:
        pair = _until_decided(case, steps, only(run, (roles.baseline, delay.arm, control)), rule, roles)
        counted = pair.seconds[pair.counts]
        seconds = {arm: _figure(case, steps, counted[:, :, place], metric) for place, arm in enumerate(pair.arms)}
        confidence = case_confidence(seconds, roles, rule)
        found = comparison(metric, delay.arm, seconds, roles, rule, confidence)
        return Judged(found, truth(case, steps, pair, metric, delay))

    return tuple(_detection(delay, [judged(run, delay) for run in runs]) for delay in delays)


def cut(samples: Samples, rounds: int) -> list[Samples]:
    """Runs of consecutive rounds, as many of them as count; what is left over is in none."""
    counted = np.cumsum(samples.counts)
    ends = [int(np.searchsorted(counted, number)) + 1 for number in range(rounds, int(counted[-1]) + 1, rounds)]
    return [_between(samples, begin, end) for begin, end in zip([0, *ends], ends, strict=False)]


def only(samples: Samples, arms: Sequence[str]) -> Samples:
    """The same rounds without the other arms."""
    places = [samples.arms.index(arm) for arm in arms]
    return replace(
        samples,
        arms=tuple(arms),
        shortcut=tuple(samples.shortcut[place] for place in places),
        seconds=samples.seconds[:, :, places],
        order=samples.order[:, :, places],
        skipped=samples.skipped[:, places],
    )


def truth(case: Case, steps: Sequence[Step], samples: Samples, metric: str, delay: Delay) -> float:
    """The geometric mean over the baseline's rounds of the metric with the delay in every step over that without."""
    plain = samples.seconds[samples.counts][:, :, 0]
    longer = _figure(case, steps, plain + delay.seconds, metric)
    return float(np.exp(np.log(longer / _figure(case, steps, plain, metric)).mean()))


def assess(case: str, stage: str, step: float, rounds: int, must_find: float, found: Sequence[Detection]) -> SelfTest:
    """`must_find`: the least delay that this machine has to find."""
    detected = [one.asked for one in found if one.asked and one.slower >= _least(FOUND, one.runs)]
    missed = [one.asked for one in found if one.asked and one.asked not in detected]
    smallest = min((asked for asked in detected if asked > max(missed, default=0)), default=None)
    bars = tuple(bar for one in found for bar in _bars(one, must_find))
    return SelfTest(case, stage, step, found[0].runs, rounds, must_find, smallest, tuple(found), bars)


def sentence(tested: SelfTest) -> tuple[str, ...]:
    """In clauses."""
    missed = [bar for bar in tested.bars if not bar.held]
    lines = [f"{bar.what} in {bar.reached} of {bar.of} runs, {bar.needed} are needed" for bar in missed]
    smallest = "none" if tested.smallest is None else f"{100 * tested.smallest:g} %"
    ended = f"MISSED {len(missed)} of {len(tested.bars)} bars" if missed else f"PASSED all {len(tested.bars)} bars"
    first = f"the self test {ended}: the smallest delay that this machine finds is {smallest} of a step"
    return first, *lines


def _until_decided(case: Case, steps: Sequence[Step], run: Samples, rule: Rule, roles: Roles) -> Samples:
    """As far as it would have been measured."""
    for block in range(1, len(run.seconds) // rule.block_rounds):
        begun = _between(run, 0, block * rule.block_rounds)
        if decided(case, steps, roles, rule, begun):
            return begun
    return run


def _figure(case: Case, steps: Sequence[Step], seconds: np.ndarray, metric: str) -> np.ndarray:
    """seconds [round, step] -> [round]"""
    return getattr(latency(case.requests, steps, seconds), metric).mean(axis=1)


def _between(samples: Samples, begin: int, end: int) -> Samples:
    return replace(
        samples,
        seconds=samples.seconds[begin:end],
        order=samples.order[begin:end],
        void=samples.void[begin:end],
    )


def _detection(delay: Delay, runs: Sequence[Judged]) -> Detection:
    verdicts = [run.found.verdict for run in runs]
    widths = [(run.found.high - run.found.low) / 2 for run in runs if run.found.low is not None]
    noises = [run.found.noise for run in runs if run.found.noise is not None]
    return Detection(
        arm=delay.arm,
        asked=delay.share,
        seconds=delay.seconds,
        truth=_mean([run.truth for run in runs]),
        estimate=_mean([run.found.ratio for run in runs]),
        half_width=float(np.median(widths)) if widths else None,
        faster=verdicts.count("FASTER"),
        slower=verdicts.count("SLOWER"),
        same=verdicts.count("SAME"),
        undecided=verdicts.count("UNDECIDED"),
        covered=sum(run.covers for run in runs),
        covered_alone=sum(run.covers_alone for run in runs),
        noise=float(np.median(noises)) if noises else None,
        runs=len(runs),
    )


def _bars(found: Detection, must_find: float) -> list[Bar]:
    name = f"a delay of {100 * found.asked:g} %" if found.asked else "A against A"
    covered = Bar(
        f"the interval with the noise floor holds the truth of {name}",
        found.covered,
        _least(COVERED, found.runs),
        found.runs,
    )
    if not found.asked:
        quiet = found.same + found.undecided
        return [Bar(f"{name} SAME or UNDECIDED", quiet, _least(QUIET, found.runs), found.runs), covered]
    if found.asked < must_find:
        right = found.runs - found.faster
        return [Bar(f"{name} not FASTER", right, _least(QUIET, found.runs), found.runs), covered]
    return [Bar(f"{name} SLOWER", found.slower, _least(FOUND, found.runs), found.runs), covered]


def _least(share: float, runs: int) -> int:
    return math.ceil(share * runs - 1e-9)


def _mean(ratios: Sequence[float]) -> float:
    return float(np.exp(np.log(ratios).mean()))
