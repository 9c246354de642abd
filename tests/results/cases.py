"""A small experiment as values: a decode ladder, a prefill ladder and one serve case, four arms, one of them wrong."""

from dataclasses import asdict, replace

import numpy as np
from pydantic import TypeAdapter

from pipeline.evidence.samples import Samples
from pipeline.evidence.summary import ArmSummary, CaseSummary, Check, Comparison, FastPath, Summary
from pipeline.results.folder.provenance import Gpu, Provenance
from pipeline.schema import Config
from tests.compose import config as composed

ARMS = ("never", "control", "batch", "row.v2")
DECODE = (1024, 2047, 2048, 2051, 2052, 4096, 8192)
PREFILL = (512, 2048)
RATIOS = {"control": 1.002, "batch": 0.9, "row.v2": 0.97}


def config(output_dir: str = "outputs", name: str = "short_ctx", **changes) -> Config:
    """Whatever is not said here is as in conf/."""
    tree = asdict(composed("+exp=short_ctx", "model=tiny", "measure=default"))
    reference = tree["reference"]
    awkward = {"mode": "1e3", "flag": "off", "clock": "1:30", "rows": 8, "scale": 1e-6, "note": "", "list": [1, "0x1f"]}
    row = {**reference, "attend": {**reference["attend"], **awkward}}
    at_once = {"rate": None, "burstiness": 1.0}
    tree |= {
        "name": name,
        "seed": 7,
        "output_dir": output_dir,
        "model": {**tree["model"], "topk": 512},
        "engine": {**tree["engine"], "device": "cpu", "dtype": "bf16", "tp": 8, "max_num_seqs": 4},
        "workloads": {
            "decode": {
                "num_requests": 4, "arrival": at_once, "ladder": list(DECODE),
                "mix": [{"output_len": 8, "cached_len": "all"}],
            },
            "prefill": {"num_requests": 1, "arrival": at_once, "ladder": list(PREFILL), "mix": [{"output_len": 1}]},
            "serve": {
                "num_requests": 6, "arrival": {"rate": 2.5, "burstiness": 0.5}, "ladder": None,
                "mix": [
                    {"output_len": {"kind": "uniform", "low": 1, "high": 9}, "prompt_len": [64, 300], "weight": 2.0},
                    {"output_len": 4, "prompt_len": 2040, "cached_len": 1000},
                ],
            },
        },
        "arms": {"never": reference, "batch": reference, "row.v2": row},
    }  # fmt: skip
    return replace(TypeAdapter(Config).validate_python(tree), **changes)


def provenance(launch_directory: str = "/somewhere", overrides: tuple[str, ...] = ("+exp=short_ctx",)) -> Provenance:
    return Provenance(
        command="python -m pipeline +exp=short_ctx",
        overrides=overrides,
        launch_directory=launch_directory,
        git_commit="0123456789abcdef0123456789abcdef01234567",
        git_dirty=True,
        python="3.11.7",
        packages={"torch": "2.13.0", "triton": None, "mlflow": "3.17.2"},
        platform="Linux",
        cpu="AMD EPYC",
        cores=2,
        gpu=Gpu("NVIDIA H200", "580.159"),
        utc="2026-11-29T16:44:00+00:00",
    )


def samples(case: str = "decode-2048", context: int = 2048) -> Samples:
    generator = np.random.default_rng(3)
    shape = (5, 3, 4)
    order = np.argsort(generator.random(shape), axis=-1)
    return Samples(
        case=case,
        workload="decode",
        context=context,
        digest="d1",
        scope="stack",
        arms=ARMS,
        shortcut=(False, False, True, True),
        seconds=0.01 + generator.random(shape) / 1e3,
        order=order,
        rows=np.array([4, 4, 4]),
        skipped=np.array([[0, 0, 4, 4]] * 3),
        scorable=np.array([4, 4, 4]),
        started=1795970969.25,
        warmup_rounds=2,
    )


def summary() -> Summary:
    """`batch` is 10 % faster where its path fires; `row.v2` fails its check at 2052 tokens of the decode ladder."""
    cases = [_case("decode", context, "tpot") for context in DECODE]
    cases += [_case("prefill", context, "ttft") for context in PREFILL]
    cases.append(_case("serve", 2044, "tpot"))
    return Summary(
        cases=tuple(cases),
        baseline="never",
        control="control",
        scope="stack",
        layers="csa",
        tp=8,
        percentile_method="linear",
        interval_method="percentile bootstrap of the mean log ratio over rounds",
        minimum_samples={"mean": 1, "median": 1, "std": 2, "p99": 100, "interval": 5},
        headline=("row.v2 failed its check", "batch is FASTER than never at 4 of 7 decode contexts (up to 10 %)"),
    )


def _case(workload: str, context: int, primary: str) -> CaseSummary:
    ladder = workload != "serve"
    return CaseSummary(
        case=f"{workload}-{context}" if ladder else workload,
        workload=workload,
        context=context,
        digest=f"digest-of-{workload}-{context}",
        scope="stack",
        primary=primary,
        arms={arm: _arm(arm, workload, context) for arm in ARMS},
        requests=4,
        steps=7,
        rounds=20,
        warmup_rounds=2,
        judged=("ttft", "tpot") if workload == "serve" else (primary,),
    )


def _arm(arm: str, workload: str, context: int) -> ArmSummary:
    fires = arm in ("batch", "row.v2") and context < 2052
    path = FastPath(28 if fires else 0, 28, 7 if fires else 0, 7, arm in ("batch", "row.v2"))
    if arm == "row.v2" and workload == "decode" and context == 2052:
        check = Check(False, 0.31, 0.03, "layer 0, step 3: output error 0.31 > 0.03")
        return ArmSummary(arm, check, {}, {"ratio_tpot": "the arm failed its check"}, path, {})
    ratio = RATIOS.get(arm, 1.0) if fires or arm == "control" else 1.0
    metrics, undefined = _metrics(workload, context, ratio)
    names = [name for name in ("ttft", "tpot", "itl", "e2el") if f"mean_{name}_ms" in metrics]
    comparisons = {} if arm == "never" else {name: _comparison(arm, name, ratio) for name in names}
    return ArmSummary(arm, Check(True, 2.1e-3, 0.03, ""), metrics, undefined, path, comparisons)


def _metrics(workload: str, context: int, ratio: float) -> tuple[dict[str, float], dict[str, str]]:
    base = (8 + context / 700) * ratio
    names = {"ttft": base * (40 if workload != "decode" else 1)}
    if workload != "prefill":
        names |= {"tpot": base, "itl": base}
    names["e2el"] = names["ttft"] + 7 * base
    metrics = {"duration": base, "completed": 80, "failed": 0, "total_input_tokens": 320, "total_output_tokens": 640}
    metrics |= {f"{kind}_throughput": 4000 / base for kind in ("request", "output", "total_token")}
    for name, value in names.items():
        metrics[f"{name}_step_throughput"] = 4000 / base
        metrics |= {f"mean_{name}_ms": value, f"median_{name}_ms": value * 0.99, f"std_{name}_ms": value * 0.04}
    undefined = {f"p99_{name}_ms": "80 samples, 100 are needed" for name in names}
    if workload == "prefill":
        undefined |= {f"{kind}_tpot_ms": "no request brought two tokens" for kind in ("mean", "median", "std", "p99")}
    return metrics, undefined


def _comparison(arm: str, name: str, ratio: float) -> Comparison:
    verdict = "SAME" if abs(ratio - 1) < 0.01 else "FASTER"
    return Comparison(name, ratio, ratio * 0.993, ratio * 1.006, verdict, 0.008, 0.02, 0.95, 20)


def assert_in_order(text: str, parts: list[str]) -> None:
    places = [text.find(part) for part in parts]
    assert -1 not in places and places == sorted(places)
