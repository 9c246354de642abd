"""Looking more than once: when a case may end, and how sure each look must be.

Whoever looks often enough at equal arms sees a difference. A group-sequential design spends the error bit by bit: at
each look the chance that any look so far was wrong is what has been spent. Lan and DeMets, Discrete sequential
boundaries for clinical trials, Biometrika 70 (1983); the spending function is Kim and DeMets', Biometrika 74 (1987):
little at first, so that the last look costs little. The looks are those of a normal mean; each is taken at its nominal
error with Student's width, as Jennison and Turnbull advise for few observations.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy import integrate, optimize, stats

from pipeline.evidence.stats.blocks import MINIMUM_BLOCKS, Rule

SPENDING_POWER = 2
GROWTH = 1.5  # of the blocks from one look to the next
GRID = 401


def looks(planned_blocks: int) -> tuple[int, ...]:
    """Numbers of blocks, the last is all of them."""
    found, blocks = [], MINIMUM_BLOCKS
    while blocks * GROWTH <= planned_blocks:
        found.append(blocks)
        blocks = int(np.ceil(blocks * GROWTH))
    return (*found, planned_blocks)


def look_confidence(rule: Rule, blocks: int) -> float | None:
    """Of an interval at a look before the last; None where no look is planned."""
    before = _before_the_last(rule)
    if blocks not in before:
        return None
    return 1 - _errors(before[: before.index(blocks) + 1], rule.planned_blocks, rule.error, all_spent=False)[-1]


def final_confidence(rule: Rule, blocks: int) -> float:
    """Of an interval of a case that ended with so many blocks, undecided at every look before."""
    before = tuple(look for look in _before_the_last(rule) if look < blocks)
    if not before:
        return 1 - rule.error
    return 1 - _errors((*before, blocks), rule.planned_blocks, rule.error, all_spent=True)[-1]


def _before_the_last(rule: Rule) -> tuple[int, ...]:
    return looks(rule.planned_blocks)[:-1] if rule.planned_blocks else ()


@lru_cache(maxsize=256)
def _errors(blocks: tuple[int, ...], planned: int, error: float, all_spent: bool) -> tuple[float, ...]:
    """The nominal two-sided error of each look. Armitage, McPherson and Rowe's recursion over the sum so far."""
    spent = [error * (count / planned) ** SPENDING_POWER for count in blocks]
    if all_spent:
        spent[-1] = error
    bound = stats.norm.isf(spent[0] / 2) * np.sqrt(blocks[0])
    sums = np.linspace(-bound, bound, GRID)
    density = stats.norm.pdf(sums, scale=np.sqrt(blocks[0]))
    found = [spent[0]]
    for (before, after), (spent_before, spent_after) in zip(pairwise(blocks), pairwise(spent), strict=True):
        step = np.sqrt(after - before)

        def excess(bound: float, step=step, sums=sums, density=density, allowed=spent_after - spent_before) -> float:
            return 2 * integrate.simpson(density * stats.norm.sf((bound - sums) / step), x=sums) - allowed

        bound = optimize.brentq(excess, 0, 40 * np.sqrt(after))
        reached = np.linspace(-bound, bound, GRID)
        moved = stats.norm.pdf(reached[:, None], loc=sums, scale=step)
        sums, density = reached, integrate.simpson(density * moved, x=sums, axis=1)
        found.append(float(2 * stats.norm.sf(bound / np.sqrt(after))))
    return tuple(found)
