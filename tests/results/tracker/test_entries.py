import json
from collections import Counter
from dataclasses import asdict, replace

import pytest

from pipeline.evidence.findings import Findings, GateOutcome
from pipeline.results.tracker.entries import Metric, arm_entries, parent_entry
from tests.results.cases import ARMS, DECODE, config, provenance, summary
from tests.results.full import WARNING, full

ID = "20261129T164400Z-ab12cd"
OVERRIDES = ("+exp=short_ctx", "++model.topk=128")


def parent(found=None, chosen=None, note="**verdict**"):
    return parent_entry(ID, chosen or config(), provenance(overrides=OVERRIDES), found or summary(), note)


def arms(found=None, chosen=None):
    return arm_entries(ID, chosen or config(), provenance(overrides=OVERRIDES), found or summary())


def curve(entry, key):
    return {metric.step: metric.value for metric in entry.metrics if metric.key == key}


def with_arm(found, name, **changes):
    """The summary with one arm changed in every case."""
    return replace(
        found,
        cases=tuple(
            replace(case, arms=case.arms | {name: replace(case.arms[name], **changes)}) for case in found.cases
        ),
    )


def test_curves_of_an_arm_have_the_context_as_step():
    entry, cases = arms()["batch"], summary().cases
    decode = {case.context: case.arms["batch"] for case in cases if case.workload == "decode"}
    assert curve(entry, "decode/tpot_ms") == {at: arm.metrics["mean_tpot_ms"] for at, arm in decode.items()}
    assert curve(entry, "decode/ratio") == {at: arm.comparisons["tpot"].ratio for at, arm in decode.items()}
    assert curve(entry, "decode/fast_path_share") == {at: float(at < 2052) for at in DECODE}
    assert curve(entry, "decode.ratio_tpot_low")[2047] == decode[2047].comparisons["tpot"].low
    assert curve(entry, "decode.mean_e2el_ms")[8192] == decode[8192].metrics["mean_e2el_ms"]
    assert curve(entry, "serve/tpot_ms").keys() == {0}, "a workload without a ladder is a single value"
    assert curve(arms()["never"], "decode/ratio") == dict.fromkeys(DECODE, 1.0)
    assert not curve(entry, "prefill/tpot_ms")


def test_the_parent_has_the_ratio_of_each_arm():
    assert curve(parent(), "decode/ratio.row.v2") == {at: 0.97 if at < 2052 else 1.0 for at in DECODE if at != 2052}
    assert curve(parent(), "serve/ratio.batch") == {0: 0.9}


@pytest.mark.parametrize("name", ["parent", *ARMS])
def test_no_metric_is_logged_twice(name):
    entry = parent() if name == "parent" else arms()[name]
    assert max(Counter((metric.key, metric.step) for metric in entry.metrics).values()) == 1


def test_axes_are_metrics_too():
    for entry in (parent(), arms()["control"]):
        assert {"model.topk": 512.0, "model.compress_ratio": 4.0, "engine.tp": 8.0}.items() <= {
            metric.key: metric.value for metric in entry.metrics
        }.items()
        assert not [metric for metric in entry.metrics if metric.key == "engine.chunked_prefill"]


def test_nan_and_infinity_are_left_out_and_told():
    nowhere = {"duration": float("inf"), "mean_tpot_ms": float("nan"), "completed": 3}
    entry = arms(with_arm(summary(), "batch", metrics=nowhere, undefined={"output_throughput": "no time passed"}))[
        "batch"
    ]
    assert not curve(entry, "decode.duration") and not curve(entry, "decode/tpot_ms")
    assert curve(entry, "decode.completed") == dict.fromkeys(DECODE, 3.0)
    assert "decode/output_throughput" in entry.tags["undefined"] and "no time passed" in entry.tags["undefined"]


def test_params_hold_the_whole_configuration():
    params, chosen = parent().params, asdict(config())
    assert params["model.topk"] == "512" and params["model.name"] == "tiny" and params["track.uri"] == "null"
    assert json.loads(params["workloads.decode.ladder"]) == list(DECODE)
    assert params["workloads.serve.mix.1.output_len.value"] == "4"
    assert params["arms.row.v2.attend.mode"] == "1e3"
    assert params["arms.never.attend._target_"] == chosen["arms"]["never"]["attend"]["_target_"]
    assert params["config_sha256"] != parent(chosen=replace(config(), seed=8)).params["config_sha256"]


def test_params_of_an_arm_are_its_own_variant():
    found = arms()
    assert found["row.v2"].params["variant.attend.rows"] == "8"
    assert not [key for key in found["row.v2"].params if key.startswith("arms.")]
    same = {key: value for key, value in found["never"].params.items() if key != "arm"}
    assert same == {key: value for key, value in found["control"].params.items() if key != "arm"}


def test_the_digest_of_each_workload_is_the_same_for_every_arm():
    digests = [{key: value for key, value in entry.params.items() if key.startswith("digest.")}
               for entry in [parent(), *arms().values()]]  # fmt: skip
    assert digests[0].keys() == {"digest.decode", "digest.prefill", "digest.serve"}
    assert all(digest == digests[0] for digest in digests)


def test_what_a_tracker_cannot_hold_is_named_and_never_cut():
    variant = config().arms["batch"]
    knobs = {**variant.attend, "long": "x" * 6001, "fits": "x" * 6000, "a@b": 1}
    chosen = config(arms=config().arms | {"batch": replace(variant, attend=knobs)})
    entry = parent(chosen=chosen)
    assert entry.params["arms.batch.attend.fits"] == "x" * 6000
    assert entry.tags["only_in_config.yaml"] == "arms.batch.attend.long, arms.batch.attend.a@b"
    assert "only_in_config.yaml" not in parent().tags
    long = parent(replace(summary(), headline=("y" * 9000,)), note="z" * 9000)
    assert long.tags["verdict"] == "too long for a tag: see summary.json"
    assert long.tags["mlflow.note.content"].endswith("The table is in report.md.")
    assert max(map(len, long.tags.values())) <= 8000


def test_tags():
    tags = parent().tags
    assert tags["verdict"] == "; ".join(summary().headline)
    assert tags["mlflow.note.content"] == "**verdict**"
    assert tags["mlflow.source.git.commit"] == "0123456789abcdef0123456789abcdef01234567"
    assert (tags["scope"], tags["layers"], tags["tp"], tags["device"]) == ("stack", "csa", "8", "NVIDIA H200")
    found = arms()
    assert [found[arm].tags["role"] for arm in ARMS] == ["baseline", "control", "candidate", "candidate"]
    assert (
        found["batch"].tags["verdict"].startswith("decode: FASTER 1024 2047 2048 2051, SAME 2052 4096 8192; prefill:")
    )
    assert found["row.v2"].tags["check"] == "FAILED in decode-2052"


def test_who_passed():
    assert not parent().passed
    assert {arm: entry.passed for arm, entry in arms().items()} == {arm: arm != "row.v2" for arm in ARMS}


def test_names_tell_the_jobs_of_a_sweep_apart():
    assert parent().name == "model.topk=128 ab12cd"
    assert arms()["row.v2"].name == "row.v2 model.topk=128 ab12cd"


def test_a_zero_is_a_value():
    entry = arms(with_arm(summary(), "batch", metrics={"completed": 0.0}))["batch"]
    assert Metric("serve.completed", 0.0, 0) in entry.metrics


@pytest.mark.parametrize("held", [True, False])
def test_a_gate_that_does_not_hold_fails_the_run_and_no_arm(held):
    sound = replace(summary(), cases=tuple(case for case in summary().cases if case.arms["row.v2"].check.passed))
    gated = replace(sound, findings=Findings(gate=GateOutcome(held, ())))
    assert parent(gated).passed is held
    assert all(entry.passed for entry in arms(gated).values())


def test_findings_that_runs_can_be_compared_by():
    entry = parent(full())
    assert curve(entry, "overall/decode.batch") == {0: 0.942} and curve(entry, "overall/decode.row.v2") == {0: 0.986}
    entry = arms(full())["batch"]
    assert curve(entry, "overall/decode") == {0: 0.942}
    assert curve(entry, "decode/explained_share") == {1024: 0.97, 2047: 0.046}
    assert curve(entry, "compiles/variants") == {0: 14} and curve(entry, "compiles/break_even_launches") == {0: 0}
    assert curve(entry, "decode.stage.select_us") == pytest.approx({1024: 12.2, 2047: 12.2, 4096: 61.0})
    assert curve(entry, "decode.stage.select.score_us")[4096] == pytest.approx(48.8)
    assert curve(entry, "decode/limit_share")[4096] == pytest.approx(0.4 * 175.2 / 179.2)
    never = arms(full())["never"]
    assert curve(never, "compiles/first_step_seconds") == {0: 7.9} and not curve(never, "compiles/break_even_launches")


def test_outcomes_are_tags():
    tags = parent(full()).tags
    found = (tags["gate"], tags["claim"], tags["void_blocks"])
    assert found == ("NOT HELD", "pr_1 TPOT at 2k: REPRODUCED", "3 of 64")
    assert WARNING in tags["warnings"] and "row.v2 has no figures at decode-2052" in tags["warnings"]
    bare = parent(with_arm(summary(), "row.v2", check=summary().cases[0].arms["never"].check)).tags
    assert not {"gate", "claim", "void_blocks", "self_test"} & set(bare) and bare["warnings"] == "none"


def test_no_finding_is_logged_twice():
    for entry in (parent(full()), *arms(full()).values()):
        assert max(Counter((metric.key, metric.step) for metric in entry.metrics).values()) == 1
