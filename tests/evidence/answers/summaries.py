"""Summaries with given ratios, for tests of what is concluded from them."""

from pipeline.evidence.summary import ArmSummary, CaseSummary, Check, Comparison, FastPath, Overall, Summary

PASSED = Check(True, 1e-6, 1e-4, "output error 1e-06")
FAILED = Check(False, 0.5, 1e-4, "output error 0.5 passes 0.0001")
UNITS = {"tpot": ("mean_tpot_ms", 1e3), "ttft": ("mean_ttft_ms", 1e3), "step": ("mean_step_us", 1e6)}


def compared(ratio, verdict="FASTER", half=0.005, metric="tpot", rounds=20, noise=0.0, needed=None) -> Comparison:
    """The interval is ratio -+ half; None where half is None."""
    low, high = (None, None) if half is None else (ratio - half, ratio + half)
    return Comparison(metric, ratio, low, high, verdict, noise, 0.02, 0.95, rounds, needed)


def case(context, comparison=None, base=0.010, arm="batch", fast=True, check=PASSED, **changes) -> CaseSummary:
    """One arm against never; `base`: seconds of the baseline."""
    metric = comparison.metric if comparison else changes.get("primary", "tpot")
    key, unit = UNITS[metric]
    path = FastPath(4 if fast else 0, 4, int(fast), 1, expected=True)
    sound = check.passed and comparison is not None
    undefined = {} if sound else {f"ratio_{metric}": "the arm failed its check"}
    arms = {
        "never": ArmSummary("never", PASSED, {key: base * unit}, {}, FastPath(0, 4, 0, 1, expected=False), {}),
        arm: ArmSummary(arm, check, {}, undefined, path, {metric: comparison} if sound else {}),
        "control": ArmSummary("control", PASSED, {key: base * unit}, {}, FastPath(0, 4, 0, 1, expected=False), {}),
    }
    given = {"workload": "decode", "scope": "stack", "primary": metric, "requests": 4, "steps": 2, "mode": ""} | changes
    return CaseSummary(
        case=f"{given['workload']}-{context}",
        context=context,
        digest="abc",
        arms=arms,
        rounds=20,
        warmup_rounds=2,
        **given,
    )


def summary(*cases: CaseSummary, overall: tuple[Overall, ...] = (), scope="stack") -> Summary:
    return Summary(
        cases=cases,
        baseline="never",
        control="control",
        scope=scope,
        layers="csa",
        tp=1,
        percentile_method="linear",
        interval_method="bootstrap",
        minimum_samples={},
        headline=("none",),
        overall=overall,
    )
