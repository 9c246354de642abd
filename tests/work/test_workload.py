import dataclasses
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from pydantic import TypeAdapter

from pipeline.schema import ConfigError, Model, Workload
from pipeline.work.workload import Request, cases

MODEL = TypeAdapter(Model).validate_python(
    {
        "name": "small",
        "hidden": 8,
        "heads": 2,
        "head_dim": 8,
        "rope_dim": 4,
        "q_lora_rank": 4,
        "o_groups": 1,
        "o_lora_rank": 4,
        "window": 8,
        "compress_ratio": 4,
        "topk": 2,
        "hca_ratio": 8,
        "index_heads": 1,
        "index_dim": 4,
        "norm_eps": 1e-6,
        "rope_theta": 1e4,
        "compress_rope_theta": 1e4,
        "yarn": {"factor": 16.0, "original_length": 64, "beta_fast": 32.0, "beta_slow": 1.0},
        "schedule": ["csa"],
    }
)


def workload(*mix, num_requests=4, rate=None, burstiness=1.0, ladder=None, boundary=None) -> Workload:
    return TypeAdapter(Workload).validate_python(
        {
            "num_requests": num_requests,
            "mix": list(mix),
            "arrival": {"rate": rate, "burstiness": burstiness},
            "ladder": ladder,
            "boundary": boundary,
        }
    )


def drawn(asked: Workload, seed: int = 0) -> tuple[Request, ...]:
    (case,) = cases({"w": asked}, MODEL, seed)
    return case.requests


def test_a_decode_ladder_ends_each_request_at_its_context():
    asked = workload({"output_len": 3, "cached_len": "all"}, num_requests=2, ladder=[10, 2048])
    first, second = cases({"decode": asked}, MODEL, 0)
    assert (first.name, first.workload, first.context) == ("decode-10", "decode", 10)
    assert first.requests == (Request(0.0, 7, 8, 3),) * 2
    assert (second.name, second.context) == ("decode-2048", 2048)
    assert second.requests == (Request(0.0, 2045, 2046, 3),) * 2
    assert {request.context for request in second.requests} == {2048}


def test_a_workload_decodes_where_no_part_of_it_has_a_prompt_to_read():
    decode, prompt = {"output_len": 3, "cached_len": "all"}, {"output_len": 3, "cached_len": 4}
    assert workload(decode, ladder=[10]).decodes and workload(decode, decode, ladder=[10]).decodes
    assert not workload(prompt, ladder=[10]).decodes and not workload(decode, prompt, ladder=[10]).decodes


def test_the_boundary_follows_the_model():
    asked = workload({"output_len": 1}, ladder=[8, 100], boundary=[4, -1, 0, 3])
    assert [case.context for case in cases({"w": asked}, MODEL, 0)] == [7, 8, 11, 12, 100]
    wider = dataclasses.replace(MODEL, topk=512)
    assert [case.context for case in cases({"w": asked}, wider, 0)] == [8, 100, 2047, 2048, 2051, 2052]


def test_without_a_ladder_the_context_is_the_longest_sequence():
    asked = workload({"prompt_len": [5, 9, 7], "output_len": 2}, num_requests=3)
    (case,) = cases({"mixed": asked}, MODEL, 0)
    assert (case.name, case.context) == ("mixed", 10)
    assert Counter(request.prompt_len for request in case.requests) == {5: 1, 9: 1, 7: 1}


@pytest.mark.parametrize(("weights", "expected"), [((1, 3), (2, 6)), ((1, 1, 1), (3, 3, 2)), ((1e-9, 1), (0, 8))])
def test_the_mix_is_realised_in_exact_proportion(weights, expected):
    parts = [
        {"prompt_len": number + 1, "output_len": 1, "weight": float(weight)} for number, weight in enumerate(weights)
    ]
    found = Counter(request.prompt_len for request in drawn(workload(*parts, num_requests=8)))
    assert tuple(found[number + 1] for number in range(len(weights))) == expected


def test_uniform_and_lognormal_stay_inside_their_bounds_and_reach_them():
    uniform = {"kind": "uniform", "low": 2, "high": 4}
    lognormal = {"kind": "lognormal", "median": 50.0, "sigma": 1.0, "low": 20, "high": 100}
    requests = drawn(workload({"prompt_len": lognormal, "output_len": uniform}, num_requests=2000))
    assert {request.output_len for request in requests} == {2, 3, 4}
    prompts = np.array([request.prompt_len for request in requests])
    assert (prompts.min(), prompts.max()) == (20, 100)
    assert abs(np.median(prompts) - 50) < 3


def test_a_lognormal_that_overflows_is_clipped():
    wild = {"kind": "lognormal", "median": 50.0, "sigma": 1e6, "low": 1, "high": 9}
    assert {
        request.prompt_len for request in drawn(workload({"prompt_len": wild, "output_len": 1}, num_requests=50))
    } == {
        1,
        9,
    }


def test_a_list_is_taken_in_turn_or_drawn_by_weight():
    turns = drawn(workload({"prompt_len": [3, 5], "output_len": 1}, num_requests=5))
    assert Counter(request.prompt_len for request in turns) == {3: 3, 5: 2}
    weighted = {"kind": "list", "values": [3, 5], "weights": [0.0, 1.0]}
    assert {request.prompt_len for request in drawn(workload({"prompt_len": weighted, "output_len": 1}))} == {5}


def test_arrivals_start_at_zero_and_keep_rate_and_burstiness():
    part = {"prompt_len": 1, "output_len": 1}
    assert {request.arrival for request in drawn(workload(part))} == {0.0}
    for burstiness in (0.25, 1.0, 4.0):
        requests = drawn(workload(part, num_requests=20_000, rate=10.0, burstiness=burstiness))
        gaps = np.diff([request.arrival for request in requests])
        assert requests[0].arrival == 0.0 and gaps.min() >= 0
        assert gaps.mean() == pytest.approx(0.1, rel=0.05)
        assert gaps.std() == pytest.approx(0.1 / burstiness**0.5, rel=0.05)


def test_draws_depend_on_seed_and_name_and_on_nothing_else():
    asked = workload(
        {"prompt_len": {"kind": "uniform", "low": 1, "high": 10**6}, "output_len": 1}, num_requests=8, rate=1.0
    )
    both = cases({"a": asked, "b": asked}, MODEL, 7)
    swapped = cases({"b": asked, "a": asked}, MODEL, 7)
    assert both == swapped[::-1] == [*cases({"a": asked}, MODEL, 7), *cases({"b": asked}, MODEL, 7)]
    digests = [case.digest for case in both] + [case.digest for case in cases({"a": asked}, MODEL, 8)]
    assert len(set(digests)) == 3


def test_every_context_of_a_ladder_has_the_same_output_lengths_and_arrivals():
    part = {"output_len": {"kind": "uniform", "low": 1, "high": 50}}
    short, long = cases({"w": workload(part, ladder=[100, 5000], rate=2.0)}, MODEL, 3)
    assert [(it.output_len, it.arrival) for it in short.requests] == [
        (it.output_len, it.arrival) for it in long.requests
    ]
    assert short.digest != long.digest


def test_the_digest_does_not_depend_on_the_hash_seed():
    script = (
        "from tests.work.test_workload import *\n"
        "part = dict(prompt_len=dict(kind='uniform', low=1, high=10**6), output_len=1)\n"
        "print(cases({'w': workload(part)}, MODEL, 1)[0].digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1 and len(digests.pop().strip()) == 12


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            workload({"prompt_len": 5, "cached_len": 5, "output_len": 1}),
            "4 of 4 requests of w lack cached_len below",
        ),
        (workload({"output_len": 3}, ladder=[2]), "4 of 4 requests of w-2 lack a prompt of at least 1 token"),
        (workload({"output_len": 1}, boundary=[-8]), "4 of 4 requests of w-0 lack a prompt of at least 1 token"),
        (workload({"prompt_len": 1 << 20, "output_len": 2}), f"lack at most {1 << 20} tokens"),
    ],
)
def test_what_cannot_be_asked_is_one_line(asked, told):
    with pytest.raises(ConfigError) as caught:
        cases({"w": asked}, MODEL, 0)
    (line,) = caught.value.lines
    assert line.startswith("workloads.w: ") and told in line and "prompt_len=" in line


def test_faults_of_all_workloads_are_told_together():
    bad = workload({"prompt_len": 5, "cached_len": 5, "output_len": 1})
    with pytest.raises(ConfigError) as caught:
        cases({"a": bad, "b": bad}, MODEL, 0)
    assert [line.split(":")[0] for line in caught.value.lines] == ["workloads.a", "workloads.b"]


def test_two_cases_of_one_name_would_share_a_file():
    asked = {
        "decode": workload({"output_len": 2, "cached_len": "all"}, ladder=[64]),
        "decode-64": workload({"output_len": 2, "prompt_len": 63}),
    }
    with pytest.raises(ConfigError, match="2 cases are called decode-64; rename one"):
        cases(asked, MODEL, 0)


@pytest.mark.parametrize(("rate", "burstiness"), [(1e-200, 1e-200), (1e-305, 1e-10)])
def test_an_arrival_beyond_numbers_is_refused(rate, burstiness):
    asked = {"serve": workload({"output_len": 2, "prompt_len": 9}, rate=rate, burstiness=burstiness)}
    with pytest.raises(ConfigError, match="an arrival that is a number"):
        cases(asked, MODEL, 0)
