"""How the intervals of an experiment were made, in words."""

from pipeline.evidence.stats.blocks import MINIMUM_BLOCKS, Rule
from pipeline.evidence.stats.interval import INNER
from pipeline.evidence.stats.sequential import SPENDING_POWER, looks


def interval_method(rule: Rule) -> str:
    return "; ".join([_interval(rule), _family(rule), _looks(rule), *_resolution(rule)])


def _interval(rule: Rule) -> str:
    rounds = "single rounds" if rule.block_rounds == 1 else f"blocks of {rule.block_rounds} rounds"
    return (
        f"mean log ratio over {rounds}, at least {MINIMUM_BLOCKS}; {100 * INNER:g} % percentiles of "
        f"{rule.resamples:,} bootstrap resamples, stretched to Student's width (Welch's for a mean over contexts)"
    )


def _resolution(rule: Rule) -> list[str]:
    if not rule.resolution:
        return []
    return [
        f"nothing below {100 * rule.resolution:g} % is told from noise, nor anything within the control's noise at a "
        "context of the workload where it surely differs"
    ]


def _family(rule: Rule) -> str:
    if rule.comparisons == 1:
        return "the error is that of the one ratio"
    return (
        f"the error is shared out evenly (Bonferroni) among the {rule.comparisons} ratios with a verdict, the "
        "control's and the means over contexts among them"
    )


def _looks(rule: Rule) -> str:
    if rule.planned_blocks is None:
        return "looked at once, when the budget is spent"
    planned = looks(rule.planned_blocks)
    if len(planned) == 1:
        return f"looked at once, after {planned[0]} blocks or where measure.seconds ended it"
    return (
        f"looked at after {', '.join(map(str, planned[:-1]))} and {planned[-1]} blocks, or where measure.seconds ended "
        f"it: a case ends at the first look that decides every arm. The error of a ratio is spent over the looks as "
        f"the share of {planned[-1]} blocks to the power of {SPENDING_POWER} (Lan and DeMets; Kim and DeMets), and its "
        "interval is that of the last look at that look's nominal error; a mean over contexts has the highest "
        "confidence of its contexts"
    )
