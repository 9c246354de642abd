"""One colour for each arm, the same in every picture and page. Readable without red and green: Okabe and Ito (2008)."""

from collections.abc import Iterable

from pipeline.evidence.summary import Summary

BASELINE = "#777777"
CONTROL = "#BBBBBB"
CANDIDATES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")


def colours(summary: Summary) -> dict[str, str]:
    """By arm; they repeat after the seventh candidate."""
    arms: Iterable[str] = summary.cases[0].arms
    candidates = [arm for arm in arms if arm not in (summary.baseline, summary.control)]
    found = {arm: CANDIDATES[number % len(CANDIDATES)] for number, arm in enumerate(candidates)}
    return found | {summary.baseline: BASELINE} | ({summary.control: CONTROL} if summary.control else {})
