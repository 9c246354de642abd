import numpy as np
import pytest

from pipeline.evidence.figures.latency import latency
from pipeline.work.schedule import STEP_SECONDS, TOKEN_SECONDS, Chunk, Step, schedule
from pipeline.work.workload import Request


def steps_of(*steps):
    """Each step: (request, tokens emitted) pairs. Nominally a step takes a second."""
    return [
        Step(float(number), tuple(Chunk(request, 0, 1, emitted) for request, emitted in step))
        for number, step in enumerate(steps)
    ]


def test_first_token_delay_is_no_inter_token_latency():
    """failure case C02"""
    request = Request(arrival=0.0, cached_len=0, prompt_len=7, output_len=5)
    steps = schedule([request], max_num_seqs=1, max_num_batched_tokens=64, chunked_prefill=True)
    times = latency([request], steps, np.array([[1.0, 0.01, 0.01, 0.01, 0.01]]))
    np.testing.assert_allclose(times.ttft, [[1.0]])
    np.testing.assert_allclose(times.itl, [[0.01] * 4])
    np.testing.assert_allclose(times.tpot, [[0.01]])
    np.testing.assert_allclose(times.ttft + times.itl.sum(axis=1), times.e2el)


def test_one_output_token_has_no_tpot():
    """failure case C01: output lengths 1, 1, 8"""
    requests = [Request(0.0, 3, 4, output_len) for output_len in (1, 1, 8)]
    steps = schedule(requests, max_num_seqs=3, max_num_batched_tokens=64, chunked_prefill=True)
    times = latency(requests, steps, np.array([[0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.8]]))
    np.testing.assert_allclose(times.tpot, [[1.4 / 7]])
    np.testing.assert_allclose(times.ttft, [[0.4, 0.4, 0.4]])
    np.testing.assert_allclose(times.e2el, [[0.4, 0.4, 1.8]])
    assert (times.completed, times.failed, times.input_tokens, times.output_tokens) == (3, 0, 12, 10)


def test_only_single_tokens_leave_tpot_and_itl_empty():
    request = Request(0.0, 0, 4, 1)
    times = latency([request], steps_of([(0, 1)]), np.array([[0.5], [0.7]]))
    assert times.tpot.shape == times.itl.shape == (2, 0)
    np.testing.assert_allclose(times.ttft, [[0.5], [0.7]])


def test_tokens_are_counted_not_steps():
    """failure case C03: three tokens a step, ten in all, after a chunk that brings none"""
    request = Request(0.0, 0, 20, 10)
    steps = steps_of([(0, 0)], [(0, 3)], [(0, 3)], [(0, 3)], [(0, 1)])
    times = latency([request], steps, np.array([[1.0, 1.0, 0.3, 0.3, 0.3]]))
    np.testing.assert_allclose(times.ttft, [[2.0]])
    np.testing.assert_allclose(times.tpot, [[0.9 / 9]])
    np.testing.assert_allclose(times.itl, [[0.3, 0.3, 0.3]])
    assert times.output_tokens == 10


def test_tokens_that_all_come_at_once_take_no_time_each():
    times = latency([Request(0.0, 0, 20, 3)], steps_of([(0, 3)]), np.array([[1.0]]))
    np.testing.assert_array_equal(times.tpot, [[0.0]])
    assert times.itl.size == 0


def test_chunked_prefill_brings_its_first_token_with_the_last_chunk():
    request = Request(0.0, 0, 10, 2)
    steps = schedule([request], max_num_seqs=1, max_num_batched_tokens=4, chunked_prefill=True)
    times = latency([request], steps, np.array([[1.0, 2.0, 4.0, 8.0]]))
    np.testing.assert_allclose(times.ttft, [[7.0]])
    np.testing.assert_allclose(times.itl, [[8.0]])


def test_an_arrival_keeps_its_fraction_of_the_step_and_queueing_counts():
    requests = [Request(0.0, 0, 1, 2), Request(1.25, 0, 1, 1), Request(1.25, 0, 1, 1), Request(3.0, 0, 1, 1)]
    steps = steps_of([(0, 1)], [(0, 1)], [(1, 1)], [(2, 1), (3, 1)])
    times = latency(requests, steps, np.array([[1.0, 2.0, 4.0, 8.0], [4.0, 8.0, 2.0, 1.0]]))
    np.testing.assert_allclose(times.ttft, [[1, 7 - 1.5, 15 - 1.5, 8], [4, 14 - 6, 15 - 6, 1]])
    np.testing.assert_allclose(times.e2el, [[3, 5.5, 13.5, 8], [12, 8, 9, 1]])
    np.testing.assert_allclose(times.duration, [15, 15])


def test_no_step_waits_for_the_arrival_that_ends_an_idle_gap():
    requests = [Request(0.0, 0, 4, 1), Request(9.0, 0, 4, 2)]
    steps = schedule(requests, max_num_seqs=4, max_num_batched_tokens=64, chunked_prefill=True)
    times = latency(requests, steps, np.array([[1.0, 2.0, 4.0], [20.0, 8.0, 1.0]]))
    np.testing.assert_allclose(times.ttft, [[1, 2], [20, 8]])
    np.testing.assert_allclose(times.e2el, [[1, 6], [20, 9]])
    np.testing.assert_allclose(times.duration, [7, 29])


def served(rate):
    """48 requests that queue, overlap and leave gaps, and their steps."""
    random = np.random.default_rng(4)
    arrivals = np.cumsum(random.exponential(1 / rate, 48))
    prompts, outputs = random.integers(1, 400, 48), random.integers(1, 12, 48)
    requests = [Request(*asked) for asked in zip(arrivals - arrivals[0], [0] * 48, prompts, outputs, strict=True)]
    return requests, schedule(requests, max_num_seqs=4, max_num_batched_tokens=256, chunked_prefill=True)


@pytest.mark.parametrize("rate", [2.0, 16.0, 200.0])
def test_an_arm_that_takes_the_nominal_time_has_the_nominal_latencies(rate):
    requests, steps = served(rate)
    nominal = np.array([[STEP_SECONDS + TOKEN_SECONDS * step.tokens for step in steps]])
    times = latency(requests, steps, nominal)
    for number, request in enumerate(requests):
        emitting = [
            step.time + seconds
            for step, seconds in zip(steps, nominal[0], strict=True)
            if any(chunk.request == number and chunk.emits for chunk in step.chunks)
        ]
        assert times.ttft[0, number] == pytest.approx(emitting[0] - request.arrival)
        assert times.e2el[0, number] == pytest.approx(emitting[-1] - request.arrival)


@pytest.mark.parametrize("rate", [2.0, 16.0, 200.0])
@pytest.mark.parametrize("step_seconds", [1e-4, 1e-3, 0.02, 0.06, 5.0])
def test_a_gain_in_every_step_is_that_gain_in_every_latency(step_seconds, rate):
    requests, steps = served(rate)
    seconds = step_seconds * np.random.default_rng(5).uniform(0.5, 2, (3, len(steps)))
    baseline, faster = latency(requests, steps, seconds), latency(requests, steps, 0.9 * seconds)
    for name in ("ttft", "tpot", "itl", "e2el", "duration"):
        assert (getattr(baseline, name) > 0).all()
        np.testing.assert_allclose(getattr(faster, name) / getattr(baseline, name), 0.9, rtol=1e-9)


def test_a_request_without_a_token_has_failed():
    requests = [Request(0.0, 0, 8, 1), Request(0.0, 0, 6, 1)]
    times = latency(requests, steps_of([(0, 1)], [(1, 0)]), np.array([[1.0, 1.0]]))
    assert (times.completed, times.failed, times.input_tokens, times.output_tokens) == (1, 1, 8, 1)
    np.testing.assert_allclose(times.ttft, [[1.0]])


@pytest.mark.parametrize("rounds", [1, 3])
def test_rounds_are_independent(rounds):
    requests = [Request(0.0, 3, 4, 3), Request(0.5, 3, 4, 2)]
    steps = steps_of([(0, 1)], [(0, 1), (1, 1)], [(0, 1), (1, 1)])
    seconds = np.random.default_rng(0).uniform(0.1, 1, (rounds, 3))
    together = latency(requests, steps, seconds)
    for number in range(rounds):
        alone = latency(requests, steps, seconds[number : number + 1])
        for name in ("ttft", "tpot", "itl", "e2el"):
            np.testing.assert_array_equal(getattr(together, name)[number], getattr(alone, name)[0])
