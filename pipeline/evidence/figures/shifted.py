"""What the control surely does in one context, any arm may do in another.

The control is one draw of where an arm's memory lies, and each context draws anew. Where the control surely differs
from the baseline, which it is, the noise floor of that context holds in all contexts of the workload and mode.
"""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.evidence import stats
from pipeline.evidence.summary import ArmSummary, CaseSummary, Comparison


def shifted(cases: Sequence[CaseSummary], control: str | None) -> list[CaseSummary]:
    """The cases with the verdicts that this leaves to all arms but the control."""
    if control is None:
        return list(cases)
    return [_shifted(case, [other for other in cases if _ladder(other) == _ladder(case)], control) for case in cases]


def _ladder(case: CaseSummary) -> tuple[str, str]:
    return case.workload, case.mode


def _shifted(case: CaseSummary, ladder: Sequence[CaseSummary], control: str) -> CaseSummary:
    return replace(
        case, arms={name: arm if name == control else _judged(arm, ladder, control) for name, arm in case.arms.items()}
    )


def _judged(arm: ArmSummary, ladder: Sequence[CaseSummary], control: str) -> ArmSummary:
    found = {}
    for metric, one in arm.comparisons.items():
        sure = [each for case in ladder if (each := case.arms[control].comparisons.get(metric)) and each.bias]
        found[metric] = _widened(one, sure) if sure and one.noise is not None else one
    return replace(arm, comparisons=found)


def _widened(one: Comparison, sure: Sequence[Comparison]) -> Comparison:
    noise = max(one.noise, *(each.noise for each in sure))
    bias = max(one.bias, *(each.bias for each in sure))
    verdict = stats.verdict_beyond(one.low, one.high, noise, bias, one.margin)
    needed = None if verdict != one.verdict else one.rounds_needed
    return replace(one, noise=noise, bias=bias, verdict=verdict, rounds_needed=needed)
