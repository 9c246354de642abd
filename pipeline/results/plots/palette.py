"""One colour for each arm and each stage, the same in every picture and page.

Readable without red and green. Arms: Okabe and Ito (2008); stages: Tol's muted scheme (2021).
"""

from collections.abc import Iterable

from pipeline.evidence.summary import Summary

BASELINE = "#777777"
CONTROL = "#BBBBBB"
CANDIDATES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STAGES = {
    "project": "#88CCEE",
    "norm": "#BBBBBB",
    "ingest": "#44AA99",
    "compress": "#117733",
    "select": "#CC6677",
    "cover": "#AA4499",
    "gather": "#999933",
    "combine": "#882255",
    "attend": "#332288",
    "emit": "#DDCC77",
}
REST = "#E4E4E4"
INK = "#333333"
BAND = "#E5E5E5"
GRID = "#EEEEEE"
FRAME = "#AAAAAA"

ON_DARK = {
    INK: "#D5D8DC", BAND: "#30363D", GRID: "#262B31", FRAME: "#6E7681", REST: "#484F58", BASELINE: "#9AA0A6",
    "#0072B2": "#4BA3DB", "#009E73": "#2FBF94", "#000000": "#FFFFFF", "#117733": "#45A866", "#882255": "#C9608F",
    "#332288": "#8678E9",
}  # fmt: skip
"""What takes a colour's place on a dark page, where it would not be seen."""


def colours(summary: Summary) -> dict[str, str]:
    """By arm; they repeat after the seventh candidate."""
    arms: Iterable[str] = summary.cases[0].arms
    candidates = [arm for arm in arms if arm not in (summary.baseline, summary.control)]
    found = {arm: CANDIDATES[number % len(CANDIDATES)] for number, arm in enumerate(candidates)}
    return found | {summary.baseline: BASELINE} | ({summary.control: CONTROL} if summary.control else {})
