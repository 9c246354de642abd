"""The small experiment again, with everything that a run may find besides ratios."""

from dataclasses import replace

from pipeline.evidence.costs import Breakdown, Explanation, Roof, StageCost
from pipeline.evidence.findings import (
    Applies,
    ClaimOutcome,
    Compiles,
    Crossing,
    Findings,
    GateOutcome,
    Machine,
    Projected,
    Weighted,
)
from pipeline.evidence.summary import CaseSummary, Comparison, Overall, Summary
from tests.results.cases import summary

WARNING = "another process on the device: pid 4711 <python>, 3.1 GB"
STAGES = {"ingest": 8.1e-6, "compress": 12.4e-6, "select": 61.0e-6, "attend": 84.5e-6, "emit": 9.2e-6}
MACHINE = Machine(
    64, 3, (1650.0, 1980.0), (2619.0, 2619.0), (41.0, 58.0), (180.0, 402.0), ("power cap",), (0.9, 1.7), None,
    (WARNING, "3 of 64 blocks are void: throttled by power cap"),
)  # fmt: skip
COMPILES = (
    Compiles("never", 9, 14, 6.2, 7.9, None, {"compress.fused.pool": 2, "attend.hopper.heads": 12}),
    Compiles("batch", 9, 14, 6.2, 0.4, 0, {"compress.fused.pool": 2}),
    Compiles("row.v2", 10, 17, 7.9, 1.9, 48_213, {"select.row": 3}),
)
CLAIM = ClaimOutcome(
    "pr_1", "https://example.org/1", "tpot", -0.12, -0.1, -0.107, -0.094, "REPRODUCED", "as claimed", (),
    "A claim", "TPOT at 2k", "model", "batch against never, tpot of layers csa, case decode-2048",
)  # fmt: skip
WEIGHTED = Weighted("conv", "A trace, CC-BY", "tpot", 0.93, 0.92, 0.941, 0.9, 0.946, "decode steps", 64, 0.0012)
APPLIES = (
    Applies("decode", "batch", (1024, 2047, 2048, 2051), (Crossing(2051, 2052, None),), (WEIGHTED,), "",
            (1024, 2051, 2052), (1024, 2051)),
)  # fmt: skip
PROJECTED = (Projected("decode-1024", "batch", "tpot", 0.04, -0.0945, -0.084, "21 csa layers take 52% of its time"),)
GATE = GateOutcome(
    False, ("VIOLATED: row.v2 at decode-2052: time 1.020, at most 1.01 is allowed", "9 of 10 demands held: 1%")
)


def full() -> Summary:
    """`batch` is explained at 1024 tokens and not at 2047; `row.v2` is UNDECIDED at 4096."""
    found = summary()
    cases = tuple(_decided(case) for case in found.cases)
    clauses = ["batch against never in decode (TPOT): FASTER by 10.0 % up to context 2051", "row.v2 <FAILED> its check"]
    return replace(
        found,
        cases=cases,
        headline=tuple(clauses),
        overall=(_mean("batch", 0.942, "FASTER"), _mean("row.v2", 0.986, "UNDECIDED"), _mean("control", 1.002, "SAME")),
        findings=Findings(
            machine=MACHINE,
            compiles=COMPILES,
            roof=Roof(4.1e12, 790e12, 2.1e-6, 1500e12),
            breakdowns=tuple(
                _breakdown(case, arm)
                for case in ("decode-1024", "decode-2047", "decode-4096")
                for arm in ("never", "batch", "row.v2")
            ),
            explanations=(_explanation("decode-1024", 0.97, True), _explanation("decode-2047", 0.046, False)),
            applies=APPLIES,
            claim=CLAIM,
            projected=PROJECTED,
            gate=GATE,
        ),
    )


def _decided(case: CaseSummary) -> CaseSummary:
    case = replace(case, clock_mhz=1965.0, outliers={"never": 2, "batch": 0})
    if case.case != "decode-4096":
        return case
    row = case.arms["row.v2"]
    comparison = replace(row.comparisons["tpot"], verdict="UNDECIDED", rounds_needed=3762, confidence=0.9983)
    return replace(case, arms=case.arms | {"row.v2": replace(row, comparisons=row.comparisons | {"tpot": comparison})})


def _mean(arm: str, ratio: float, verdict: str) -> Overall:
    needed = 180 if verdict == "UNDECIDED" else None
    comparison = Comparison("tpot", ratio, ratio - 0.004, ratio + 0.004, verdict, 0.006, 0.02, 0.9833, 140, needed)
    return Overall("decode", "", arm, comparison)


def _breakdown(case: str, arm: str) -> Breakdown:
    saved = 0.2 if arm == "batch" and case != "decode-4096" else 1.0
    seconds = {stage: took * (saved if stage == "select" else 1.0) for stage, took in STAGES.items()}
    step = sum(seconds.values()) + 4e-6
    stages = [_cost(stage, took, step) for stage, took in seconds.items()]
    stages.insert(3, replace(_cost("score", 0.8 * seconds["select"], step), within="select"))
    return Breakdown(case, arm, step, tuple(stages), 4e-6, (0, 6), 2e-5)


def _cost(stage: str, seconds: float, step: float) -> StageCost:
    limit = 0.4 * seconds
    return StageCost(
        stage, 1, seconds, 0.99 * seconds, 1.01 * seconds, round(4.1e12 * limit), round(1e9 * limit), limit, "bytes",
        seconds / step,
    )  # fmt: skip


def _explanation(case: str, share: float, explained: bool) -> Explanation:
    stages = -48.8e-6 * share
    return Explanation(
        case, "batch", ("select",), stages, 1.02 * stages, 0.98 * stages, -48.8e-6, -50e-6, -47e-6, share, explained,
        "select: of the step",
    )  # fmt: skip
