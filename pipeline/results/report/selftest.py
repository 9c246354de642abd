"""What the instrument found of delays that were put in, as a table for the terminal and for Markdown alike."""

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from pipeline.evidence.detected import Detection, SelfTest

HEADER = (
    "put in",
    "true",
    "found",
    "± interval",
    "± noise",
    "SLOWER",
    "FASTER",
    "SAME",
    "UNDECIDED",
    "holds the truth",
)


def section(tested: SelfTest) -> str:
    """GitHub's Markdown."""
    smallest = "none" if tested.smallest is None else f"{100 * tested.smallest:g} %"
    bars = "\n".join(
        f"- {'held' if bar.held else '**MISSED**'}: {bar.what}, {bar.reached} of {bar.of}, {bar.needed} needed"
        for bar in tested.bars
    )
    return "\n\n".join(
        [
            "### What it detects on this machine",
            shown(tested),
            f"Smallest delay that is found in nine of ten runs: **{smallest}** of a step.",
            bars,
            f"{tested.runs} runs of {tested.rounds} rounds, cut from one recording, each judged as any run is: "
            f"baseline, control and one arm. Every arm waits behind `{tested.stage}`; those with a delay wait longer, "
            f"by a share of the step, {1e6 * tested.step:,.1f} µs. How long was measured alone, before and after. "
            "True: what that makes of the baseline's own rounds, geometric mean over the runs. Interval: median "
            "half-width. Noise: median of what the control, the baseline with caches of its own, may differ by. Holds "
            "the truth: the interval widened by the noise, which is what a verdict uses; in brackets without that.",
        ]
    )


def shown(tested: SelfTest) -> str:
    """A Markdown table whose columns are aligned."""
    grid = Table(box=MARKDOWN)
    for number, name in enumerate(HEADER):
        grid.add_column(name, justify="right" if number else "left", no_wrap=True)
    for found in tested.detections:
        grid.add_row(*_cells(found))
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(grid)
    return "\n".join(line.strip() for line in captured.get().strip().splitlines())


def _cells(found: Detection) -> tuple[str, ...]:
    name = f"{100 * found.asked:g} %, {1e6 * found.seconds:,.2f} µs" if found.asked else "nothing"
    half = "-" if found.half_width is None else f"{100 * found.half_width:.2f} %"
    noise = "-" if found.noise is None else f"{100 * found.noise:.2f} %"
    counts = (found.slower, found.faster, found.same, found.undecided)
    truth, estimate = (f"{100 * (ratio - 1):+.2f} %" for ratio in (found.truth, found.estimate))
    held = f"{found.covered} of {found.runs} ({found.covered_alone})"
    return name, truth, estimate, half, noise, *map(str, counts), held
