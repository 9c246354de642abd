"""Intervals of means over blocks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from pipeline.evidence.stats.blocks import MINIMUM_BLOCKS, Rule, block_means

INNER = 0.9  # confidence of the percentiles that are stretched
RESAMPLES_AT_ONCE = 1024
FARTHEST = 700.0  # of a log ratio: its exponential and the reciprocal of that are numbers


@dataclass(frozen=True)
class Interval:
    """A ratio of times; low and high are None below MINIMUM_BLOCKS. `blocks` are the log ratios whose mean it is, if
    it is one of them."""

    ratio: float
    low: float | None
    high: float | None
    rounds: int
    blocks: tuple[float, ...] = ()


def paired_interval(arm: np.ndarray, baseline: np.ndarray, rule: Rule, confidence: float | None = None) -> Interval:
    """Both [round], positive. At the rule's confidence for one comparison unless another is given."""
    blocks = block_means(np.log(arm / baseline), rule.block_rounds)
    return _ratio([blocks], len(arm), rule, 1 - rule.error if confidence is None else confidence)


def overall_interval(ratios: Sequence[Interval], rule: Rule, confidence: float) -> Interval:
    """The geometric mean of independent ratios, such as those of several contexts, each of the same weight."""
    groups = [np.array(ratio.blocks) for ratio in ratios]
    return replace(_ratio(groups, sum(ratio.rounds for ratio in ratios), rule, confidence), blocks=())


def mean_interval(values: np.ndarray, rule: Rule, confidence: float | None = None) -> tuple[float, float] | None:
    """values [round]; None below MINIMUM_BLOCKS. At the rule's confidence for a single figure unless one is given."""
    return _bounds([block_means(values, rule.block_rounds)], rule, confidence or rule.confidence)


def stretch(groups: Sequence[np.ndarray], confidence: float) -> float:
    """How much wider than its percentiles at INNER an interval must be.

    A bootstrap takes the spread of few blocks for that of all there could be, and reaches no further than the most
    extreme of them: at 5 blocks a plain percentile interval claims 95 % and covers 83 %, and no percentile covers more
    than 94 %. Stretched, it is as wide as Student's where the blocks are normal (Welch's, where there are groups) and
    keeps the bootstrap's skew where they are not. Hesterberg, What Teachers Should Know About the Bootstrap, The
    American Statistician 69 (2015), widens percentiles for the same reason.
    """
    counts = np.array([len(group) for group in groups])
    errors = np.array([np.var(group, ddof=1) for group in groups]) / counts
    if not errors.sum():
        return 1.0
    freedom = errors.sum() ** 2 / (errors**2 / (counts - 1)).sum()
    narrow = errors.sum() / (errors * (counts - 1) / counts).sum()
    return float(stats.t.isf((1 - confidence) / 2, freedom) / stats.norm.isf((1 - INNER) / 2) * np.sqrt(narrow))


def _ratio(groups: Sequence[np.ndarray], rounds: int, rule: Rule, confidence: float) -> Interval:
    bounds = _bounds(groups, rule, confidence)
    low, high = (None, None) if bounds is None else np.exp(np.clip(bounds, -FARTHEST, FARTHEST)).tolist()
    blocks = tuple(np.concatenate(groups).tolist())
    return Interval(float(np.exp(_mean(*groups))), low, high, rounds, blocks)


def _bounds(groups: Sequence[np.ndarray], rule: Rule, confidence: float) -> tuple[float, float] | None:
    if min(map(len, groups)) < MINIMUM_BLOCKS:
        return None
    inner = stats.bootstrap(
        groups,
        _mean,
        n_resamples=rule.resamples,
        batch=RESAMPLES_AT_ONCE,
        confidence_level=INNER,
        method="percentile",
        rng=np.random.default_rng(rule.seed),
    ).confidence_interval
    mean, wider = _mean(*groups), stretch(groups, confidence)
    return float(mean - (mean - inner.low) * wider), float(mean + (inner.high - mean) * wider)


def _mean(*groups: np.ndarray, axis: int = -1) -> np.ndarray:
    """Of the groups' means."""
    return sum(group.mean(axis=axis) for group in groups) / len(groups)
