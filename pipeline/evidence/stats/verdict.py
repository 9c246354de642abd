"""What an interval says, and how many rounds would make it say more."""

import numpy as np
from scipy import stats

from pipeline.evidence.stats.blocks import MINIMUM_BLOCKS, Rule
from pipeline.evidence.stats.interval import FARTHEST, Interval

FORESEEABLE = 1 << 20  # blocks


def noise_floor(control: Interval | None, resolution: float = 0.0) -> float | None:
    """Relative: 0.01 is 1 %. Never below the resolution."""
    if control is None or control.low is None or control.high is None:
        return None
    return max(1 / control.low - 1, control.high - 1, resolution)


def certain_bias(control: Interval | None) -> float:
    """Relative: by how much the control surely differs from the baseline, which it is. 0 where that is not certain."""
    if control is None or control.low is None or control.high is None:
        return 0.0
    return max(control.low, 1 / control.high, 1.0) - 1


def verdict(interval: Interval, control: Interval | None, margin: float, resolution: float = 0.0) -> str:
    noise = noise_floor(control, resolution)
    return verdict_beyond(interval.low, interval.high, noise, certain_bias(control), margin, resolution)


def verdict_beyond(
    low: float | None, high: float | None, noise: float | None, bias: float, margin: float, resolution: float = 0.0
) -> str:
    """Of an interval from low to high; `noise` and `bias` as above. `resolution` counts where there is no noise."""
    if low is None or high is None:
        return "UNDECIDED"
    beyond = max(margin, resolution)
    faster, slower = (1 - beyond, 1 + beyond) if noise is None else (1 / (1 + noise), 1 + noise)
    if high < faster:
        return "FASTER"
    if low > slower:
        return "SLOWER"
    if bias <= margin and 1 - margin <= low / (1 + bias) and high * (1 + bias) <= 1 + margin:
        return "SAME"
    return "UNDECIDED"


def foreseen(arm: Interval, control: Interval | None, blocks: int, rule: Rule) -> str:
    """The verdict after so many blocks if they went on like those that were seen, of which there are two or more.

    A control whose interval holds 1 is expected to come to it.
    """
    later = None if control is None else _after(control, _shift(control), blocks, rule)
    return verdict(_after(arm, np.mean(arm.blocks), blocks, rule), later, rule.margin, rule.resolution)


def rounds_needed(arm: Interval, control: Interval | None, rule: Rule) -> int | None:
    """The least that would decide if they went on like those that were seen.

    None where none would: with fewer than two blocks, or where the control surely differs from the baseline as much.
    """
    few = len(arm.blocks) if len(arm.blocks) >= MINIMUM_BLOCKS else MINIMUM_BLOCKS - 1
    many = few + 1
    if len(arm.blocks) < 2:
        return None
    while foreseen(arm, control, many, rule) == "UNDECIDED":
        few, many = many, 2 * many
        if many > FORESEEABLE:
            return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if foreseen(arm, control, middle, rule) == "UNDECIDED" else (few, middle)
    return many * rule.block_rounds


def _shift(control: Interval) -> float:
    return np.mean(control.blocks) if certain_bias(control) else 0.0


def _after(seen: Interval, centre: float, blocks: int, rule: Rule) -> Interval:
    reach = stats.t.isf(rule.error / 2, blocks - 1) * np.std(seen.blocks, ddof=1) / np.sqrt(blocks)
    low, high = np.exp(np.clip([centre - reach, centre + reach], -FARTHEST, FARTHEST)).tolist()
    return Interval(seen.ratio, low, high, blocks * rule.block_rounds)
