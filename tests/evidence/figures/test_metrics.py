import math

import numpy as np
import pytest

from pipeline.evidence.figures.latency import Latency
from pipeline.evidence.figures.metrics import calls, distribution, in_cycles, serving


def latencies(ttft, tpot, itl, e2el, duration, **counts):
    return Latency(*(np.array(values, dtype=float) for values in (ttft, tpot, itl, e2el, duration)), **counts)


TWO_ROUNDS = latencies(
    ttft=[[0.1, 0.3], [0.2, 0.4]],
    tpot=[[0.01], [0.03]],
    itl=[[0.01, 0.01], [0.03, 0.03]],
    e2el=[[0.12, 0.3], [0.26, 0.4]],
    duration=[2.0, 3.0],
    completed=2,
    failed=0,
    input_tokens=30,
    output_tokens=4,
)


def test_rounds_add_up_under_the_names_of_vllm():
    values = serving(TWO_ROUNDS).values
    expected = {
        "duration": 5.0,
        "completed": 4,
        "failed": 0,
        "total_input_tokens": 60,
        "total_output_tokens": 8,
        "request_throughput": 0.8,
        "output_throughput": 1.6,
        "total_token_throughput": 13.6,
        "mean_ttft_ms": 250.0,
        "median_ttft_ms": 250.0,
        "std_ttft_ms": np.sqrt(12500.0),
        "mean_tpot_ms": 20.0,
        "median_tpot_ms": 20.0,
        "std_tpot_ms": 10.0,
        "mean_itl_ms": 20.0,
        "median_itl_ms": 20.0,
        "std_itl_ms": 10.0,
        "mean_e2el_ms": 270.0,
        "median_e2el_ms": 280.0,
        "std_e2el_ms": np.std([120.0, 300.0, 260.0, 400.0]),
    }
    assert values == pytest.approx(expected)


def test_what_is_missing_is_told_and_has_no_number():
    metrics = serving(TWO_ROUNDS)
    assert metrics.undefined == {
        "p99_ttft_ms": "4 samples, 100 are needed",
        "p99_tpot_ms": "2 samples, 100 are needed",
        "p99_itl_ms": "4 samples, 100 are needed",
        "p99_e2el_ms": "4 samples, 100 are needed",
    }
    assert not metrics.values.keys() & metrics.undefined.keys()


def test_no_tpot_where_every_output_is_one_token():
    """failure case C01"""
    metrics = serving(
        latencies([[1.0]], [[]], [[]], [[1.0]], [1.0], completed=1, failed=0, input_tokens=4, output_tokens=1)
    )
    for key in ("mean_tpot_ms", "median_tpot_ms", "std_tpot_ms", "p99_tpot_ms"):
        assert metrics.undefined[key] == "no request brought two tokens"
    assert metrics.values["mean_ttft_ms"] == 1000.0
    assert metrics.values["output_throughput"] == 1.0
    assert metrics.undefined["std_ttft_ms"] == "1 samples, 2 are needed"


def test_no_success_and_no_time_are_no_throughput():
    failed = serving(latencies([[]], [[]], [[]], [[]], [1.0], completed=0, failed=3, input_tokens=0, output_tokens=0))
    assert failed.values == {
        "duration": 1.0,
        "completed": 0,
        "failed": 3,
        "total_input_tokens": 0,
        "total_output_tokens": 0,
    }
    assert failed.undefined["output_throughput"] == "no request brought a token"
    still = serving(latencies([[0]], [[]], [[]], [[0]], [0.0], completed=1, failed=0, input_tokens=4, output_tokens=1))
    assert still.undefined["request_throughput"] == "the clock saw no time pass"
    assert all(np.isfinite(value) for value in still.values.values())


@pytest.mark.parametrize("count", [99, 100])
def test_p99_needs_a_hundred_samples(count):
    metrics = distribution("x_ms", np.arange(count, dtype=float), "nothing")
    if count == 100:
        assert metrics.values["p99_x_ms"] == pytest.approx(98.01)  # linear between the two highest
    else:
        assert metrics.undefined["p99_x_ms"] == "99 samples, 100 are needed"


def test_calls_of_a_stage_have_times_only():
    metrics = calls(np.array([[1e-6, 2e-6], [3e-6, 6e-6]]))
    assert metrics.values == pytest.approx({"mean_step_us": 3.0, "median_step_us": 2.5, "std_step_us": np.sqrt(3.5)})
    assert metrics.undefined == {"p99_step_us": "4 samples, 100 are needed"}


def test_cycles_are_microseconds_times_the_clock():
    values = {"mean_tpot_ms": 0.5, "median_tpot_ms": 0.25, "mean_ttft_ms": 9.0}
    assert in_cycles(values, "tpot", 1980.0) == {"mean_tpot_cycles": 990_000, "median_tpot_cycles": 495_000}
    assert in_cycles({"mean_step_us": 2.0}, "step", 1500.0) == {"mean_step_cycles": 3000}
    assert in_cycles(values, "tpot", math.nan) == {} and in_cycles({}, "tpot", 1980.0) == {}
