"""Is one arm faster than another? Numbers only.

A round gives one ratio of the arm's time over the baseline's on the same steps, taken minutes at most apart, so that
what slows the machine down slows both. Neighbouring rounds may still share a disturbance that hits one arm alone: the
unit of evidence is a block of them, and the ratio of a case is the geometric mean over its blocks.

The control arm is the baseline again. Whatever its own interval allows is noise: the end further from 1. It is one draw
of where an arm's memory lies, so nothing below the rule's resolution is told from noise, however quiet it was.

    FASTER     the interval lies wholly below 1 / (1 + noise)
    SLOWER     the interval lies wholly above 1 + noise
    SAME       neither, and the interval lies within 1 - margin and 1 + margin, also when it is widened by what the
               control surely differs by, the near end of its interval: an arm may be shifted as much
    UNDECIDED  anything else, and always below MINIMUM_BLOCKS

Where the control surely differs in one context, its noise counts in all contexts of the workload and in their mean:
each draws anew where the memory of an arm lies, and the control is one draw (see `figures.shifted`).

Without a control nothing tells noise from effect, and FASTER and SLOWER need the interval beyond the margin instead.

What an experiment claims holds for all ratios that have a verdict at once, over cases, metrics and arms, the control's
and the means over contexts among them: the error is shared out evenly (Bonferroni), so that an interval and its verdict
rest on the same confidence. Where a case may end as soon as it is decided, the error of each comparison is shared out
again among the looks (see `sequential`).
"""

from pipeline.evidence.stats.blocks import MINIMUM_BLOCKS, Rule, block_means
from pipeline.evidence.stats.interval import (
    Interval,
    mean_interval,
    overall_interval,
    paired_interval,
    stretch,
)
from pipeline.evidence.stats.method import interval_method
from pipeline.evidence.stats.outliers import outliers
from pipeline.evidence.stats.resolution import resolution
from pipeline.evidence.stats.sequential import final_confidence, look_confidence, looks
from pipeline.evidence.stats.verdict import certain_bias, foreseen, noise_floor, rounds_needed, verdict, verdict_beyond

__all__ = [
    "MINIMUM_BLOCKS",
    "Interval",
    "Rule",
    "block_means",
    "certain_bias",
    "final_confidence",
    "foreseen",
    "interval_method",
    "look_confidence",
    "looks",
    "mean_interval",
    "noise_floor",
    "outliers",
    "overall_interval",
    "paired_interval",
    "resolution",
    "rounds_needed",
    "stretch",
    "verdict",
    "verdict_beyond",
]
