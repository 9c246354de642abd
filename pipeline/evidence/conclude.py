"""What a summary means: where the arms pay, whether a claim is true, what a gain is worth, whether it may pass."""

from dataclasses import replace

from pipeline.evidence.applies import applies
from pipeline.evidence.claim import judged
from pipeline.evidence.gate import gated
from pipeline.evidence.projection import projected
from pipeline.evidence.summary import Summary
from pipeline.schema import Config


def conclude(summary: Summary, config: Config, gpu: str | None) -> Summary:
    """The same summary with these findings added."""
    found = replace(
        summary.findings,
        applies=applies(summary.cases, config.workloads, config.traffic, summary.baseline, summary.control),
        claim=config.claim and judged(config.claim, summary, config, gpu),
        projected=projected(summary, config, config.projection) if config.projection else (),
        gate=gated(summary, config.gate),
    )
    return replace(summary, findings=found)
