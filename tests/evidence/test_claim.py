"""REPRODUCED, CONTRADICTED or neither, for every place that an interval can have."""

from dataclasses import replace

import pytest

from pipeline.evidence.claim import judged
from pipeline.evidence.findings import Compiles, Findings
from pipeline.questions import Claim, Figure
from pipeline.work.workload import cases as drawn
from tests.compose import config
from tests.evidence.summaries import FAILED, case, compared, summary

CONFIG = config("+exp=short_ctx", "engine.device=cpu")
DIGESTS = {it.name: it.digest for it in drawn(CONFIG.workloads, CONFIG.model, CONFIG.seed)}
SETTING = {"model": "v4_flash", "tp": "8", "gpu": "not told", "experts": "parallel"}


def claim(*figures: Figure) -> Claim:
    return Claim("pr_1", "A title", "https://example.org/1", "It says so.", ["short_ctx"], SETTING, list(figures))


def figure(delta=-0.10, scope="stack", metric="tpot", tolerance=0.0, **changes) -> Figure:
    return Figure("the layer", scope, metric, delta, ["never", "scored"], ["other", "batch"], tolerance, **changes)


def measured(context, *arguments, **changes):
    made = case(context, *arguments, **changes)
    return replace(made, digest=DIGESTS[made.case])


def outcome(figure_, *cases, scope="stack"):
    return judged(claim(figure_), summary(*cases, scope=scope), CONFIG, None)


@pytest.mark.parametrize(
    ("delta", "ratio", "half", "verdict", "expected"),
    [
        (-0.10, 0.90, 0.02, "FASTER", "REPRODUCED"),  # holds the claimed size
        (-0.10, 0.93, 0.015, "FASTER", "CONTRADICTED"),  # real, but less
        (-0.10, 0.70, 0.01, "FASTER", "REPRODUCED"),  # more
        (-0.10, 0.90, 0.051, "FASTER", "NOT DECIDABLE HERE"),  # less than half is possible
        (-0.10, 0.90, 0.11, "UNDECIDED", "NOT DECIDABLE HERE"),
        (-0.10, 1.00, 0.01, "SAME", "CONTRADICTED"),
        (-0.10, 1.10, 0.01, "SLOWER", "CONTRADICTED"),
        (-0.10, 1.00, 0.12, "UNDECIDED", "NOT DECIDABLE HERE"),
        (-0.10, 0.90, None, "UNDECIDED", "NOT DECIDABLE HERE"),
        (-0.005, 0.996, 0.003, "SAME", "NOT DECIDABLE HERE"),  # smaller than what can be told from nothing
        (-0.005, 1.000, 0.003, "SAME", "CONTRADICTED"),
        (0.10, 1.10, 0.02, "SLOWER", "REPRODUCED"),
        (0.10, 1.30, 0.02, "SLOWER", "REPRODUCED"),
        (0.10, 1.06, 0.02, "SLOWER", "CONTRADICTED"),
        (0.10, 0.90, 0.02, "FASTER", "CONTRADICTED"),
        (0.0, 1.00, 0.01, "SAME", "REPRODUCED"),
        (0.0, 1.00, 0.03, "UNDECIDED", "NOT DECIDABLE HERE"),
        (0.0, 1.05, 0.01, "SLOWER", "CONTRADICTED"),
        (0.0, 0.95, 0.01, "FASTER", "CONTRADICTED"),
        (0.0, 1.03, 0.02, "SLOWER", "NOT DECIDABLE HERE"),
    ],
)
def test_the_interval_decides(delta, ratio, half, verdict, expected):
    found = outcome(figure(delta), measured(1024, compared(ratio, verdict, half)))
    assert found.verdict == expected, found.reason
    assert (found.claimed, found.found) == (delta, pytest.approx(ratio - 1))
    assert found.found_low == (None if half is None else pytest.approx(ratio - half - 1))


def test_the_tolerance_and_the_noise_floor_are_allowed_for():
    less = measured(1024, compared(0.93, "FASTER", 0.015))
    assert outcome(figure(), less).verdict == "CONTRADICTED"
    assert outcome(figure(tolerance=0.02), less).verdict == "REPRODUCED"
    noisy = measured(1024, compared(0.93, "FASTER", 0.015, noise=0.02))
    assert outcome(figure(), noisy).verdict == "NOT DECIDABLE HERE"


def test_a_figure_of_a_model_is_never_reproduced_or_contradicted_by_a_layer():
    enough = outcome(figure(-0.034, "model", "ttft"), measured(1024, compared(0.83, "FASTER", 0.01)))
    assert enough.verdict == "NOT DECIDABLE HERE"
    assert "of a whole model behind a server, here layers csa was timed (tpot)" in enough.reason
    assert "only if what was timed takes 19% to 21% of its time" in enough.reason
    assert enough.found == pytest.approx(-0.17)
    little = outcome(figure(-0.034, "model", "ttft"), measured(1024, compared(0.99, "SAME", 0.01)))
    assert little.verdict == "NOT DECIDABLE HERE"
    assert "a model in which nothing else changes cannot differ by 3.4 %" in little.reason
    unsure = outcome(figure(-0.034, "model", "ttft"), measured(1024, compared(0.95, "UNDECIDED", 0.06)))
    assert "no effect in that direction is certain" in unsure.reason


def test_a_stage_speaks_for_a_stage_only():
    found = outcome(figure(scope="locate", metric="step"), measured(1024, compared(0.9)))
    assert found.verdict == "NOT DECIDABLE HERE" and found.found is None
    assert found.reason == "it is of locate alone, here stack was timed; use measure.scope=locate"
    step = measured(1024, compared(0.9, metric="step"), scope="locate")
    found = outcome(figure(scope="locate", metric="step"), step, scope="locate")
    assert found.verdict == "REPRODUCED"
    assert found.measured == "batch against never, step of stage locate alone, case decode-1024"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"baseline": ["runtime"]}, "it compares other or batch with runtime; the baseline here is never"),
        ({"candidate": ["fused"]}, "it compares fused with never or scored"),
        ({"contexts": [1, 1000]}, "no case is at a context from 1 to 1000"),
        ({"workloads": ["prefill"]}, "no case is of workload prefill"),
        ({"must": {"requests": "512"}}, "not comparable: requests: 512 there, 4 here"),
        ({"metric": "itl"}, "there is no comparison of batch"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_said(changes, told):
    found = outcome(replace(figure(), **changes), measured(1024, compared(0.9)))
    assert found.verdict == "NOT DECIDABLE HERE" and found.reason.startswith(told)
    assert found.found is None


def test_an_arm_that_failed_or_never_took_its_fast_path_decides_nothing():
    failed = outcome(figure(), measured(1024, None, check=FAILED))
    assert (failed.verdict, failed.reason) == ("NOT DECIDABLE HERE", "batch failed its check")
    unused = outcome(figure(), measured(1024, compared(1.0, "SAME"), fast=False))
    assert unused.verdict == "NOT DECIDABLE HERE" and "never took its fast path" in unused.reason


def test_of_several_cases_the_one_decides_that_speaks_least_for_the_claim():
    cases = [measured(1024, compared(0.8)), measured(2047, compared(0.97, half=0.01)), measured(2048, compared(0.85))]
    found = outcome(figure(), *cases)
    assert found.verdict == "CONTRADICTED" and found.found == pytest.approx(-0.03)
    assert found.reason == "at most 4 % is possible here, the least of 3 cases, 10 % was claimed"
    assert outcome(figure(contexts=[1, 1024]), *cases).found == pytest.approx(-0.2)
    assert outcome(figure(must={"context": "2048"}), *cases).found == pytest.approx(-0.15)


def test_what_was_not_told_is_read_in_favour_of_the_claim_and_keeps_it_from_being_contradicted():
    cases = [measured(1024, compared(0.8)), measured(2047, compared(0.97, half=0.01))]
    kind = outcome(figure(untold=["requests"]), *cases)
    assert kind.verdict == "REPRODUCED" and kind.found == pytest.approx(-0.2)
    assert kind.reason == "more than claimed: 19.5 % to 20.5 % with the noise floor, the most of 2 cases"
    less = outcome(figure(untold=["requests"]), cases[1])
    assert less.verdict == "NOT DECIDABLE HERE"
    assert less.reason == ("at most 4 % is possible here, 10 % was claimed; requests, which was not told, decides it")


def test_the_settings_that_differ_are_listed():
    found = outcome(figure(must={"tokens": "4"}), measured(1024, compared(0.9)))
    assert found.differs == (
        "tp: 8 there, 1 here",
        "gpu: not told there, none here",
        "experts: parallel there; not set here",
    )
    assert (found.claim, found.title, found.source) == ("pr_1", "A title", "https://example.org/1")


def test_a_figure_that_can_be_decided_comes_first_and_the_others_stay():
    model, layer = figure(-0.01, "model", "ttft"), figure(-0.1)
    found = judged(claim(model, layer), summary(measured(1024, compared(0.9))), CONFIG, "NVIDIA H200")
    assert (found.verdict, found.scope) == ("REPRODUCED", "stack")
    assert [(it.verdict, it.scope) for it in found.others] == [("NOT DECIDABLE HERE", "model")]
    assert "gpu: not told there, NVIDIA H200 here" in found.differs
    alone = judged(claim(model), summary(measured(1024, compared(0.9))), CONFIG, None)
    assert (alone.verdict, alone.others) == ("NOT DECIDABLE HERE", ())


def compiled(arm: str, variants: int) -> Compiles:
    return Compiles(arm, 1, variants, 0.3 * variants, 0.5, None, {"kernel": variants})


@pytest.mark.parametrize(
    ("runtime", "varying", "verdict"),
    [(2, 24, "REPRODUCED"), (2, 4, "REPRODUCED"), (2, 3, "CONTRADICTED"), (2, 2, "CONTRADICTED"),
     (0, 24, "NOT DECIDABLE HERE")],
)  # fmt: skip
def test_compiled_variants_are_counted(runtime, varying, verdict):
    case_ = measured(1024, compared(1.0, "SAME"))
    findings = Findings(compiles=(compiled("never", runtime), compiled("batch", varying)))
    found = judged(claim(figure(1.0, metric="compiles")), replace(summary(case_), findings=findings), CONFIG, None)
    assert found.verdict == verdict
    if runtime:
        assert found.found == varying / runtime - 1


def test_a_figure_of_compiling_is_not_held_against_steps_that_do_not():
    case_ = measured(1024, compared(1.0, "SAME"))
    findings = Findings(compiles=(compiled("never", 2), compiled("batch", 24)))
    figure_ = figure(0.5, "model", "ttft", compiling=True)
    found = judged(claim(figure_), replace(summary(case_), findings=findings), CONFIG, None)
    assert found.verdict == "NOT DECIDABLE HERE"
    assert found.reason.endswith("never compiled 2 variants in 0.6 s; batch compiled 24 variants in 7.2 s")
