"""What a reader must know first, as plain lines: what was asked and answered, what undermines it, what was found."""

import re
from collections.abc import Iterator

from pipeline.evidence.costs import Explanation
from pipeline.evidence.findings import Findings
from pipeline.evidence.summary import Comparison, Summary
from pipeline.results import answers
from pipeline.results.folder.provenance import Provenance
from pipeline.results.table import WIDEST
from pipeline.schema import Config

TOO_FEW = "too few blocks for this confidence"
NOISY = 0.1  # of the noise floor
SELDOM = 0.05  # of the steps
REAL = ("FASTER", "SLOWER")
GOOD = ("FASTER", "REPRODUCED", "HELD", "PASSED")
BAD = ("SLOWER", "FAILED", "RAISED", "CONTRADICTED", "NOT HELD", "MISSED", "NEVER FIRED", "VIOLATED")
OPEN = ("UNDECIDED", "NOT DECIDABLE HERE", "CHANGES", "TOO FEW ROUNDS", "NO ROUND", "SURELY DIFFERS", "NOTHING")
KINDS = {word: kind for kind, words in {"good": GOOD, "bad": BAD, "open": OPEN}.items() for word in words}
WORD = re.compile(rf"\b({'|'.join(sorted(KINDS, key=len, reverse=True))})\b")


def title(summary: Summary, config: Config, provenance: Provenance) -> str:
    """What was timed on what."""
    tp = f", tp {summary.tp}" if summary.tp > 1 else ""
    counts = {case.requests for case in summary.cases}
    requests = f", requests {counts.pop():,}" if len(counts) == 1 else ""
    return f"{config.model.name}, layers {summary.layers}{tp}, scope {summary.scope}{requests}, on {provenance.device}"


def outcomes(findings: Findings) -> list[str]:
    """Of the self test, the claim and the gate."""
    found = []
    if findings.self_test:
        tested = findings.self_test
        held = sum(bar.held for bar in tested.bars)
        found.append(f"{'PASSED' if tested.passed else 'MISSED'}: self test, {held} of {len(tested.bars)} bars held")
    found += answers.lines(Findings(claim=findings.claim))
    if findings.gate:
        found.append(f"{'HELD' if findings.gate.held else 'NOT HELD'}: gate, {findings.gate.lines[-1]}")
    return found


def doubts(summary: Summary) -> list[str]:
    """What undermines the figures, worst first. Void cases, a control that surely differs and fast paths that never
    fired are in the headline."""
    machine = summary.findings.machine
    told = [
        *(f"not made: {line}" for line in summary.findings.broken),
        *(f"left out: {line}" for line in summary.findings.left_out),
        *(machine.warnings if machine else ()),
    ]
    return [*_failures(summary), *told, *_late(summary), *_noisy(summary), *_unexplained(summary)]


def found(summary: Summary) -> list[str]:
    """What was found; in one line where that is nothing."""
    if not _decides_nothing(summary):
        return [*summary.headline, *explained(summary)]
    noise = max(noise_floors(summary), default=None)
    why = "the intervals are too wide" if noise is None else f"the baseline differs from itself by up to {noise:.1%}"
    why = (
        f"too few rounds for an interval, which needs {summary.minimum_samples['interval']} blocks"
        if _bare(summary)
        else why
    )
    why = TOO_FEW if noise and noise > WIDEST else why
    return [f"This run decides NOTHING: {why}", *(line for line in summary.headline if "UNDECIDED" not in line)]


def _bare(summary: Summary) -> bool:
    """Whether nothing has an interval."""
    arms = [arm for case in summary.cases for arm in case.arms.values()]
    return all(one.low is None for arm in arms for one in arm.comparisons.values())


def _decides_nothing(summary: Summary) -> bool:
    """Whether there are verdicts, and every one is UNDECIDED."""
    everything = [arm for case in summary.cases for arm in case.arms.values() if arm.arm != summary.control]
    verdicts = {one.verdict for arm in everything for one in arm.comparisons.values()}
    verdicts |= {one.comparison.verdict for one in summary.overall if one.arm != summary.control}
    return verdicts == {"UNDECIDED"} and summary.findings.self_test is None


def explained(summary: Summary) -> list[str]:
    """How much of the real differences comes from what an arm changes."""
    found: dict[str, list[float]] = {}
    for one, _ in _real(summary):
        if one.share is not None and one.explained:
            found.setdefault(one.arm, []).append(one.share)
    return [
        f"the stages that {arm} changes explain {_range(shares)} of its difference in {len(shares)} "
        f"case{'s' * (len(shares) > 1)}"
        for arm, shares in found.items()
    ]


def _range(shares: list[float]) -> str:
    low, high = f"{100 * min(shares):.0f}", f"{100 * max(shares):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _real(summary: Summary) -> Iterator[tuple[Explanation, str]]:
    """Explanations of what is FASTER or SLOWER, with that verdict."""
    cases = {case.case: case for case in summary.cases}
    for one in summary.findings.explanations:
        case = cases.get(one.case)
        comparison = case and case.arms[one.arm].comparisons.get(case.primary)
        if comparison and comparison.verdict in REAL:
            yield one, comparison.verdict


def noise_floors(summary: Summary) -> list[float]:
    """Of every case, for the metric that it is judged by."""
    return [one.noise for one in _controls(summary) if one.noise is not None]


def _controls(summary: Summary) -> Iterator[Comparison]:
    for case in summary.cases:
        if summary.control in case.arms and case.primary in case.arms[summary.control].comparisons:
            yield case.arms[summary.control].comparisons[case.primary]


def _failures(summary: Summary) -> Iterator[str]:
    for case in summary.cases:
        for arm in case.arms.values():
            if not arm.check.passed:
                yield f"{arm.arm} has no figures at {case.case}, its check failed: {arm.check.detail}"


def _late(summary: Summary) -> Iterator[str]:
    found = {case.case: (case.late, case.rounds * case.steps * len(case.arms)) for case in summary.cases if case.late}
    late, steps = (sum(counts) for counts in zip((0, 0), *found.values(), strict=True))
    if late <= SELDOM * steps:
        return
    worst = max(found, key=lambda name: found[name][0] / found[name][1])
    most = f", most in {worst}, {found[worst][0]:,} of {found[worst][1]:,}" if len(found) > 1 else ""
    yield (
        f"the device was done before the host had launched in {late:,} of {steps:,} steps of "
        f"{worst if len(found) == 1 else f'{len(found)} cases'}{most}: their times hold what the host took"
    )


def _noisy(summary: Summary) -> Iterator[str]:
    noise = max(noise_floors(summary), default=0.0)
    if noise > WIDEST:
        yield f"no noise floor: {TOO_FEW}; give every case more rounds, or lower measure.confidence"
    elif noise >= NOISY:
        yield (
            f"the noise floor reaches {noise:.0%}: something else uses this machine; stop it, or give every case more "
            "rounds with measure.seconds=60 measure.rounds=100"
        )


def _unexplained(summary: Summary) -> Iterator[str]:
    """Real differences that what was changed does not explain, by arm."""
    found: dict[tuple[str, str], list[str]] = {}
    for one, verdict in _real(summary):
        if one.explained is False and one.share < 1:
            found.setdefault((one.arm, verdict), []).append(one.case)
    for (arm, verdict), names in found.items():
        yield f"{arm} is {verdict} at {', '.join(names)}, and the stages that it changes do not explain it"
