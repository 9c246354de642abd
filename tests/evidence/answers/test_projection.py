"""A layer's difference in the whole model, and benchmarks that say nothing of it."""

import json
from dataclasses import replace

import pytest

from pipeline.evidence.answers import projection
from pipeline.evidence.findings import Projected
from pipeline.questions import Projection
from pipeline.schema import ConfigError
from pipeline.work.benchmark import read_benchmark
from tests.compose import config
from tests.evidence.answers.summaries import case, compared, summary

CONFIG = config("+exp=short_ctx", "engine.device=cpu")
GOOD = {"mean_ttft_ms": 200.0, "mean_tpot_ms": 40.0, "completed": 3}


def asked(tmp_path, content, csa=21) -> Projection:
    path = tmp_path / "bench.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return Projection(str(path), {"csa": csa, "hca": 20})


def projected(found, chosen, asked: Projection) -> tuple[Projected, ...]:
    return projection.projected(found, chosen, asked, read_benchmark(asked.benchmark))


def test_tpot_of_the_layer_becomes_tpot_of_the_model(tmp_path):
    """21 layers of 1 ms are 21 of 40 ms; 16 to 18 % of that are 8.4 to 9.45 %."""
    cases = [case(1024, compared(0.83, half=0.01), base=0.001)]
    (found,) = projected(summary(*cases), CONFIG, asked(tmp_path, GOOD))
    assert (found.case, found.arm, found.metric, found.model_seconds) == ("decode-1024", "batch", "tpot", 0.04)
    assert (found.low, found.high) == (pytest.approx(-0.18 * 21 / 40), pytest.approx(-0.16 * 21 / 40))
    assert found.detail.startswith("21 csa layers take 52% of its time, if the model runs the same batch")


def test_the_noise_floor_widens_what_it_would_be_worth(tmp_path):
    noisy = [case(1024, compared(0.83, half=0.01, noise=0.05), base=0.001)]
    (found,) = projected(summary(*noisy), CONFIG, asked(tmp_path, GOOD))
    assert found.low == pytest.approx((0.82 / 1.05 - 1) * 21 / 40)
    assert found.high == pytest.approx((0.84 * 1.05 - 1) * 21 / 40)


@pytest.mark.parametrize(
    ("graph", "mode", "told"), [("off", "", True), ("full", "", False), ("both", "eager, warm L2", True)]
)
def test_decodes_that_are_launched_call_by_call_on_a_gpu_say_nothing_of_a_server(tmp_path, graph, mode, told):
    on_gpu = replace(CONFIG, engine=replace(CONFIG.engine, device="cuda", graph=graph))
    (found,) = projected(summary(case(1024, compared(0.9), base=0.001, mode=mode)), on_gpu, asked(tmp_path, GOOD))
    assert (found.low is None) is told and ("take engine.graph=full" in found.detail) is told
    prompt = case(512, compared(0.9, metric="ttft"), base=0.001, workload="prefill", mode=mode)
    (found,) = projected(summary(prompt), on_gpu, asked(tmp_path, GOOD))
    assert found.low is not None


def test_prompts_become_ttft(tmp_path):
    cases = [case(512, compared(0.9, half=0.02, metric="ttft"), base=0.002, workload="prefill")]
    (found,) = projected(summary(*cases), CONFIG, asked(tmp_path, GOOD))
    assert (found.metric, found.model_seconds) == ("ttft", 0.2)
    assert (found.low, found.high) == (pytest.approx(-0.12 * 0.042 / 0.2), pytest.approx(-0.08 * 0.042 / 0.2))


def test_a_stage_counts_once_a_step_and_a_prompt_takes_all_its_steps(tmp_path):
    stage = {"scope": "locate", "steps": 3}
    cases = [
        case(1024, compared(0.5, half=0.1, metric="step"), base=1e-4, **stage),
        case(512, compared(0.5, half=0.1, metric="step"), base=1e-4, workload="prefill", requests=1, **stage),
        case(513, compared(0.5, half=0.1, metric="step"), base=1e-4, workload="prefill", requests=2, **stage),
    ]
    decode, prompt, prompts = projected(summary(*cases, scope="locate"), CONFIG, asked(tmp_path, GOOD))
    assert (decode.metric, decode.low) == ("tpot", pytest.approx(-0.6 * 21e-4 / 0.04))
    assert (prompt.metric, prompt.low) == ("ttft", pytest.approx(-0.6 * 3 * 21e-4 / 0.2))
    assert prompts.low is None and "take num_requests=1" in prompts.detail


def test_what_cannot_be_projected_is_said(tmp_path):
    slow = case(1024, compared(0.9), base=0.01)
    (found,) = projected(summary(slow), CONFIG, asked(tmp_path, GOOD))
    assert (found.low, found.high) == (None, None)
    assert "they alone take 210 ms here, the whole model 40 ms" in found.detail
    few = case(1024, compared(0.9, half=None, rounds=3), base=0.001)
    (found,) = projected(summary(few), CONFIG, asked(tmp_path, GOOD))
    assert found.low is None and "3 rounds give no interval" in found.detail
    (found,) = projected(summary(case(1024, compared(0.9))), CONFIG, asked(tmp_path, GOOD | {"mean_tpot_ms": 0}))
    assert found.low is None and "the benchmark has no time for it" in found.detail
    assert projected(summary(case(1024)), CONFIG, asked(tmp_path, GOOD)) == ()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "cannot be read as JSON"),
        ("[1]", "holds no object"),
        ({}, "has no mean_ttft_ms, mean_tpot_ms"),
        ({"mean_ttft_ms": 1}, "has no mean_tpot_ms"),
        (GOOD | {"mean_tpot_ms": "40"}, "mean_tpot_ms='40': must be milliseconds"),
        (GOOD | {"mean_tpot_ms": True}, "mean_tpot_ms=True: must be milliseconds"),
        (GOOD | {"mean_ttft_ms": -1}, "mean_ttft_ms=-1: must be milliseconds, from 0"),
        ('{"mean_ttft_ms": NaN, "mean_tpot_ms": 1}', "mean_ttft_ms=nan: must be milliseconds"),
        ('{"mean_ttft_ms": 1e400, "mean_tpot_ms": 1}', "mean_ttft_ms=inf: must be milliseconds"),
        (f'{{"mean_ttft_ms": {"9" * 400}, "mean_tpot_ms": 1}}', f"mean_ttft_ms={'9' * 80}: must be milliseconds"),
        (GOOD | {"mean_ttft_ms": None}, "mean_ttft_ms=None: must be milliseconds"),
    ],
)
def test_a_benchmark_that_is_none_is_refused(tmp_path, content, told):
    path = asked(tmp_path, content).benchmark
    with pytest.raises(ConfigError) as refused:
        read_benchmark(path)
    (line,) = refused.value.lines
    assert line.startswith(path) and told in line
