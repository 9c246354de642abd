import numpy as np
import pytest

from pipeline.evidence.latency import latency, step_ends
from pipeline.work.schedule import Chunk, Step, schedule
from pipeline.work.workload import Request


def steps_of(*steps):
    """Each step: (request, tokens emitted) pairs."""
    return [
        Step(number, 0.0, tuple(Chunk(request, 0, 1, emitted) for request, emitted in step))
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


def test_a_step_waits_for_the_arrival_and_queueing_counts():
    requests = [Request(0.0, 0, 1, 2), Request(5.0, 0, 1, 1), Request(5.0, 0, 1, 1)]
    steps = steps_of([(0, 1)], [(0, 1)], [(1, 1)], [(2, 1)])
    seconds = np.array([[1.0, 1.0, 2.0, 2.0], [4.0, 4.0, 2.0, 2.0]])
    np.testing.assert_allclose(step_ends(requests, steps, seconds), [[1, 2, 7, 9], [4, 8, 10, 12]])
    times = latency(requests, steps, seconds)
    np.testing.assert_allclose(times.ttft, [[1, 2, 4], [4, 5, 7]])
    np.testing.assert_allclose(times.duration, [9, 12])


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
