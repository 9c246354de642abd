"""REPRODUCED, CONTRADICTED or neither, for every place that an interval can have."""

from dataclasses import replace
from functools import partial

import pytest

from pipeline.evidence.answers.claim import judged
from pipeline.evidence.answers.setting import setting
from pipeline.evidence.findings import Compiles, Findings
from pipeline.questions import Claim, Figure, Published
from tests.compose import config
from tests.evidence.answers.summaries import FAILED, case, compared, summary

CONFIG = config("+exp=short_ctx", "engine.device=cpu")
SETTING = {"model": "v4_flash", "tp": "1", "gpu": "none", "experts": "parallel"}


def claim(*figures: Figure) -> Claim:
    return Claim("pr_1", "A title", "https://example.org/1", "It says so.", ["short_ctx"], SETTING, list(figures))


def figure(delta=-0.10, scope="stack", metric="tpot", tolerance=0.0, **changes) -> Figure:
    return Figure("the layer", scope, metric, delta, ["never", "scored"], ["other", "batch"], tolerance, **changes)


measured = partial(case, tokens=4)


def outcome(figure_, *cases, scope="stack"):
    return judged(claim(figure_), summary(*cases, scope=scope), CONFIG, None)


@pytest.mark.parametrize(
    ("delta", "ratio", "half", "verdict", "expected"),
    [
        (-0.10, 0.90, 0.02, "FASTER", "REPRODUCED"),  # holds the claimed size
        (-0.10, 0.93, 0.015, "FASTER", "CONTRADICTED"),  # real, but less
        (-0.10, 0.70, 0.01, "FASTER", "CONTRADICTED"),  # real, but more
        (-0.10, 0.93, 0.031, "FASTER", "NOT DECIDABLE HERE"),  # too wide: less than half is possible
        (-0.10, 0.84, 0.07, "FASTER", "NOT DECIDABLE HERE"),  # too wide: twice is possible
        (-0.10, 0.90, 0.051, "FASTER", "NOT DECIDABLE HERE"),  # less than half is possible
        (-0.10, 0.90, 0.11, "UNDECIDED", "NOT DECIDABLE HERE"),
        (-0.10, 1.00, 0.01, "SAME", "CONTRADICTED"),
        (-0.10, 1.10, 0.01, "SLOWER", "CONTRADICTED"),
        (-0.10, 1.00, 0.12, "UNDECIDED", "NOT DECIDABLE HERE"),
        (-0.10, 0.90, None, "UNDECIDED", "NOT DECIDABLE HERE"),
        (-0.005, 0.996, 0.003, "SAME", "NOT DECIDABLE HERE"),  # smaller than what can be told from nothing
        (-0.005, 1.000, 0.003, "SAME", "CONTRADICTED"),
        (0.10, 1.10, 0.02, "SLOWER", "REPRODUCED"),
        (0.10, 1.30, 0.02, "SLOWER", "CONTRADICTED"),
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


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-0.6, -0.59, "CONTRADICTED"), (-0.4, -0.08, "NOT DECIDABLE HERE"), (-0.17, -0.14, "REPRODUCED"),
     (-0.18, -0.16, "CONTRADICTED"), (-0.2, -0.14, "REPRODUCED"), (-0.23, -0.15, "NOT DECIDABLE HERE")],
)  # fmt: skip
def test_a_size_is_not_reproduced_by_any_gain_nor_by_an_interval_that_holds_everything(low, high, verdict):
    middle, half = 1 + (low + high) / 2, (high - low) / 2
    found = outcome(figure(-0.151), measured(1024, compared(middle, "FASTER", half)))
    assert found.verdict == verdict, found.reason
    if verdict == "CONTRADICTED":
        assert found.reason.startswith("the direction holds, the size differs: ")
        assert found.reason.endswith(" is possible here, 15.1 % was claimed")


def test_within_its_tolerance_a_figure_may_be_told_loosely():
    wide = measured(1024, compared(0.98, "FASTER", 0.015))
    assert outcome(figure(-0.02), wide).verdict == "NOT DECIDABLE HERE"
    assert outcome(figure(-0.02, tolerance=0.016), wide).verdict == "REPRODUCED"


@pytest.mark.parametrize(
    ("bound", "delta", "ratio", "half", "verdict"),
    [
        ("at least", 0.0, 1.30, 0.01, "REPRODUCED"),  # no regression without it: faster is none
        ("at least", 0.0, 1.00, 0.01, "REPRODUCED"),
        ("at least", 0.0, 0.99, 0.02, "NOT DECIDABLE HERE"),
        ("at least", 0.0, 0.70, 0.01, "CONTRADICTED"),
        ("at most", 0.0, 0.70, 0.01, "REPRODUCED"),
        ("at most", 0.0, 1.30, 0.01, "CONTRADICTED"),
        ("at most", 0.05, 1.06, 0.005, "REPRODUCED"),
        ("at most", 0.05, 1.07, 0.005, "NOT DECIDABLE HERE"),
        ("at least", 0.0, 1.00, None, "NOT DECIDABLE HERE"),
    ],
)
def test_a_bound_is_judged_on_its_side_alone(bound, delta, ratio, half, verdict):
    found = outcome(figure(delta, tolerance=0.02, bound=bound), measured(1024, compared(ratio, "SAME", half)))
    assert (found.verdict, found.bound) == (verdict, bound), found.reason


def test_the_times_themselves_stand_side_by_side():
    step = case(1024, compared(0.74, metric="step"), base=2.5e-6, scope="locate")
    step.arms["batch"] = replace(step.arms["batch"], metrics={"mean_step_us": 1.85})
    asked = figure(-0.151, "locate", "step", published=Published(7.5, 6.37, "us"))
    found = outcome(asked, step, scope="locate")
    assert found.published == pytest.approx((7.5e-6, 6.37e-6))
    assert found.times == pytest.approx((2.5e-6, 1.85e-6))
    bare = outcome(figure(), measured(1024, compared(0.9)))
    assert (bare.published, bare.times) == (None, None)


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


def test_what_all_layers_of_the_kind_save_stands_beside_what_the_model_saved():
    """21 csa layers that save 0.65 us each, where 1.01 ms were published."""
    step = case(1024, compared(0.74, metric="step"), base=2.5e-6, scope="locate")
    step.arms["batch"] = replace(step.arms["batch"], metrics={"mean_step_us": 1.85})
    asked = figure(-0.0098, "model", "tpot", published=Published(103.33, 102.32, "ms"))
    found = outcome(asked, step, scope="locate")
    assert "(step), which in 21 csa layers changes -13.7 us a step where -1.01 ms was published: " in found.reason


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
    cases = [measured(1024, compared(0.89)), measured(2047, compared(0.97, half=0.01)), measured(2048, compared(0.85))]
    found = outcome(figure(), *cases)
    assert found.verdict == "CONTRADICTED" and found.found == pytest.approx(-0.03)
    assert found.reason == (
        "the direction holds, the size differs: 2 to 4 % is possible here, in the farthest of 3 cases, 10 % was claimed"
    )
    assert outcome(figure(contexts=[1, 1024]), *cases).found == pytest.approx(-0.11)
    assert outcome(figure(must={"context": "2048"}), *cases).found == pytest.approx(-0.15)


def test_what_was_not_told_is_read_in_favour_of_the_claim_and_keeps_it_from_being_contradicted():
    cases = [measured(1024, compared(0.7)), measured(2047, compared(0.97, half=0.01)), measured(2048, compared(0.89))]
    untold = figure(tolerance=0.01, setting={"requests": "not told"})
    kind = outcome(untold, *cases)
    assert kind.verdict == "REPRODUCED" and kind.found == pytest.approx(-0.11)
    assert kind.reason == "10.5 to 11.5 % is possible here, in the nearest of 3 cases, 10 % was claimed"
    less = outcome(untold, cases[1])
    assert less.verdict == "NOT DECIDABLE HERE"
    assert less.reason == (
        "the direction holds, the size differs: 2 to 4 % is possible here, 10 % was claimed; not comparable: requests "
        "not told"
    )


@pytest.mark.parametrize(
    ("setting", "told"), [({"tp": "8"}, "tp 8 there, 1 here"), ({"gpu": "not told"}, "gpu not told")]
)
def test_another_setting_may_reproduce_but_not_contradict(setting, told):
    asked = figure(setting=setting)
    assert outcome(asked, measured(1024, compared(0.9))).verdict == "REPRODUCED"
    found = outcome(asked, measured(1024, compared(1.0, "SAME")))
    assert found.verdict == "NOT DECIDABLE HERE" and found.reason.endswith(f"not comparable: {told}")


def test_a_mode_may_be_asked_for():
    cases = [
        measured(1024, compared(0.74), mode="graph, warm L2"),
        measured(1024, compared(0.87), mode="eager, cold L2"),
    ]
    cases[1] = replace(cases[1], case="decode-1024.eager-cold")
    untold = outcome(figure(-0.151, tolerance=0.02, setting={"timed": "not told"}), *cases)
    assert untold.verdict == "REPRODUCED" and untold.measured.endswith("case decode-1024.eager-cold")
    told = outcome(figure(-0.151, tolerance=0.02, must={"timed": "graph, warm L2"}), *cases)
    assert told.verdict == "CONTRADICTED" and told.found == pytest.approx(-0.26)
    assert setting(CONFIG, measured(1024, compared(0.9)), "csa", None)["timed"] == "eager, warm L2"


def test_a_step_with_prompts_is_launched_even_where_graphs_are_asked_for():
    graphs = replace(CONFIG, engine=replace(CONFIG.engine, graph="full"))
    prompt = {"workload": "prefill", "primary": "ttft"}
    cases = [measured(1024, compared(0.9)), measured(1024, **prompt), measured(1024, **prompt, scope="combine")]
    found = [setting(graphs, it, "csa", None)["timed"] for it in cases]
    assert found == ["graph, warm L2", "eager, warm L2", "graph, warm L2"]


def test_the_settings_that_differ_are_listed():
    found = outcome(figure(must={"tokens": "4"}, setting={"tp": "8", "gpu": "not told"}), measured(1024, compared(0.9)))
    assert found.differs == (
        "tp: 8 there, 1 here",
        "gpu: not told there, none here",
        "experts: parallel there; not set here",
    )
    assert (found.claim, found.title, found.source) == ("pr_1", "A title", "https://example.org/1")


def test_what_is_contradicted_leads():
    asked = [figure(-0.01, "model", "ttft"), figure(-0.1), figure(-0.5)]
    found = judged(claim(*asked), summary(measured(1024, compared(0.9))), CONFIG, None)
    assert (found.verdict, found.claimed) == ("CONTRADICTED", -0.5)
    assert [it.verdict for it in found.others] == ["NOT DECIDABLE HERE", "REPRODUCED"]


def test_a_figure_that_can_be_decided_comes_first_and_the_others_stay():
    model, layer = figure(-0.01, "model", "ttft"), figure(-0.1)
    found = judged(claim(model, layer), summary(measured(1024, compared(0.9))), CONFIG, "NVIDIA H200")
    assert (found.verdict, found.scope) == ("REPRODUCED", "stack")
    assert [(it.verdict, it.scope) for it in found.others] == [("NOT DECIDABLE HERE", "model")]
    assert "gpu: none there, NVIDIA H200 here" in found.differs
    alone = judged(claim(model), summary(measured(1024, compared(0.9))), CONFIG, None)
    assert (alone.verdict, alone.others) == ("NOT DECIDABLE HERE", ())


def compiled(arm: str, variants: int, **others: int) -> Compiles:
    by_kernel = {"kernel": variants} | others
    return Compiles(arm, len(by_kernel), sum(by_kernel.values()), 0.3 * variants, 0.5, None, by_kernel)


def test_kernels_that_both_compile_as_often_do_not_dilute_a_count():
    found = Findings(compiles=(compiled("never", 2, attend=40, emit=3), compiled("batch", 24, attend=40, emit=3)))
    asked = claim(figure(11.0, metric="compiles"))
    outcome_ = judged(asked, replace(summary(measured(1024, compared(1.0, "SAME"))), findings=found), CONFIG, None)
    assert outcome_.found == pytest.approx(24 / 2 - 1)


def test_kernels_of_other_names_stand_for_each_other():
    found = Findings(compiles=(Compiles("never", 2, 5, 1.0, 1.0, None, {"runtime": 2, "attend": 3}),
                               Compiles("batch", 2, 9, 1.0, 1.0, None, {"constexpr": 6, "attend": 3})))  # fmt: skip
    case_ = measured(1024, compared(1.0, "SAME"))
    outcome_ = judged(claim(figure(2.0, metric="compiles")), replace(summary(case_), findings=found), CONFIG, None)
    assert outcome_.found == pytest.approx(6 / 2 - 1)


@pytest.mark.parametrize(
    ("runtime", "varying", "verdict"),
    [(2, 24, "REPRODUCED"), (2, 4, "REPRODUCED"), (2, 3, "CONTRADICTED"), (2, 2, "CONTRADICTED"),
     (0, 24, "NOT DECIDABLE HERE")],
)  # fmt: skip
def test_compiled_variants_are_counted(runtime, varying, verdict):
    case_ = measured(1024, compared(1.0, "SAME"))
    findings = Findings(compiles=(compiled("never", runtime), compiled("batch", varying)))
    asked = figure(1.0, metric="compiles", bound="at least", setting={"gpu": "not told"})
    found = judged(claim(asked), replace(summary(case_), findings=findings), CONFIG, None)
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
