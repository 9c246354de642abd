"""What the control surely does in one context, any arm may do in another.

The control is one draw of where an arm's memory lies, and each context draws anew. Where the control surely differs
from the baseline, which it is, its noise is the least in all contexts of the workload and mode, and in their mean.
"""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.evidence import stats
from pipeline.evidence.summary import ArmSummary, CaseSummary, Comparison


def shifted(cases: Sequence[CaseSummary], control: str | None) -> list[CaseSummary]:
    """The cases with the noise that counts in each, and the verdicts that it leaves."""
    if control is None:
        return list(cases)
    return [_shifted(case, [other for other in cases if _ladder(other) == _ladder(case)], control) for case in cases]


def sure_of(ladder: Sequence[CaseSummary], control: str | None, metric: str) -> list[Comparison]:
    """Of the control, in the contexts in which it surely differs."""
    found = [case.arms[control].comparisons.get(metric) for case in ladder if control in case.arms]
    return [one for one in found if one is not None and one.bias]


def widened(one: Comparison, sure: Sequence[Comparison]) -> Comparison:
    """Judged beyond what the control surely does elsewhere."""
    if not sure or one.low is None:
        return one
    noise = max([one.margin if one.noise is None else one.noise, *(other.noise for other in sure)])
    bias = max([one.bias, *(other.bias for other in sure)])
    if (noise, bias) == (one.noise, one.bias):
        return one
    verdict = stats.verdict_beyond(one.low, one.high, noise, bias, one.margin)
    return replace(one, noise=noise, bias=bias, verdict=verdict, rounds_needed=None)


def noisier(control: Comparison, sure: Sequence[Comparison]) -> Comparison:
    """The control's own, with the noise that counts for the arms beside it."""
    return (
        control if control.noise is None else replace(control, noise=max([control.noise, *(one.noise for one in sure)]))
    )


def _ladder(case: CaseSummary) -> tuple[str, str]:
    return case.workload, case.mode


def _shifted(case: CaseSummary, ladder: Sequence[CaseSummary], control: str) -> CaseSummary:
    return replace(case, arms={name: _judged(arm, ladder, control) for name, arm in case.arms.items()})


def _judged(arm: ArmSummary, ladder: Sequence[CaseSummary], control: str) -> ArmSummary:
    judge = noisier if arm.arm == control else widened
    found = {metric: judge(one, sure_of(ladder, control, metric)) for metric, one in arm.comparisons.items()}
    return replace(arm, comparisons=found)
