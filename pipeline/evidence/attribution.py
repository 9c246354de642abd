"""What the stages say about the steps, added to what was found."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.engine.stack import Blueprint
from pipeline.evidence.breakdown.explain import explanations
from pipeline.evidence.breakdown.roof import measured_roof
from pipeline.evidence.breakdown.shares import breakdowns
from pipeline.evidence.examine import Examined
from pipeline.evidence.stats import Rule
from pipeline.evidence.summary import Summary
from pipeline.schema import Config


def attributed(summary: Summary, cases: Sequence[Examined], stack: Blueprint, config: Config, rule: Rule) -> Summary:
    """The same summary with breakdowns and explanations of the cases that were taken apart, if any were."""
    apart = [case for case in cases if case.apart is not None]
    if not apart:
        return summary
    graphs = any(part.graphed.any() for case in apart for part in case.apart.parts)
    roof, verdicts = measured_roof(stack.device, stack.dtype, graphs), _verdicts(summary)
    return replace(
        summary,
        findings=replace(
            summary.findings,
            roof=roof,
            breakdowns=tuple(
                found for case in apart for found in breakdowns(case.apart, case.samples, roof, rule, list(config.arms))
            ),
            explanations=tuple(
                found
                for case in apart
                for found in explanations(
                    case.apart, case.samples, config.arms, rule, summary.baseline, verdicts[case.apart.case]
                )
            ),
        ),
    )


def _verdicts(summary: Summary) -> dict[str, dict[str, str]]:
    """case -> arm -> what it is called there, of arms that are compared."""
    return {
        case.case: {
            name: arm.comparisons[case.primary].verdict
            for name, arm in case.arms.items()
            if case.primary in arm.comparisons
        }
        for case in summary.cases
    }
