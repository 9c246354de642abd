"""Where an arm pays, and its gain over a traffic, against sums done by hand."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.evidence.answers.applies import applies
from pipeline.evidence.findings import Crossing
from pipeline.evidence.summary import FastPath
from pipeline.questions import Bin, Traffic
from pipeline.work.traffic import drawn
from tests.compose import config
from tests.evidence.answers.summaries import case, compared

WORKLOADS = config("+exp=short_ctx", "+workload@workloads.serve=serve").workloads


def applied(*cases, traffic=None):
    read = {name: drawn(asked) for name, asked in (traffic or {}).items()}
    return applies(cases, WORKLOADS, read, "never", "control")


def one(*cases, traffic=None):
    (found,) = applied(*cases, traffic=traffic)
    return found


def trace(tmp_path, *prompts: int) -> dict[str, Traffic]:
    """Of requests that decode one step each: a step sees the prompt and one token more."""
    path = tmp_path / "trace.csv"
    rows = [f"2023-11-16 18:17:03,{prompt},2\n" for prompt in prompts]
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(rows))
    return {"mine": Traffic(source="mine", trace=str(path))}


def test_contexts_are_marked_where_the_fast_path_was_taken_and_where_it_was_faster():
    found = one(
        case(2052, compared(1.0, "SAME"), fast=False), case(1024, compared(0.8)), case(2051, compared(0.99, "SAME"))
    )
    assert (found.workload, found.arm, found.mode) == ("decode", "batch", "")
    assert found.measured == (1024, 2051, 2052)
    assert found.fast_path == (1024, 2051)
    assert found.faster == (1024,)
    assert found.crossings == (Crossing(1024, 2051, None),)  # nothing tells where it stops to pay


def test_break_even_is_where_the_log_ratio_crosses_nothing_in_log_context():
    found = one(case(1024, compared(0.5)), case(4096, compared(2.0, "SLOWER"), fast=False))
    assert found.crossings == (Crossing(1024, 4096, pytest.approx(2048)),)
    found = one(case(1024, compared(0.5)), case(4096, compared(4.0, "SLOWER"), fast=False))
    assert found.crossings == (Crossing(1024, 4096, pytest.approx(1024 * 4 ** (1 / 3))),)


def test_an_arm_that_pays_from_a_context_on_breaks_even_too():
    found = one(case(1024, compared(1.25, "SLOWER")), case(4096, compared(0.8)))
    assert found.crossings == (Crossing(1024, 4096, pytest.approx(2048)),)


def test_undecided_contexts_do_not_move_the_break_even():
    around = [case(1024, compared(0.5)), case(4096, compared(2.0, "SLOWER"))]
    found = one(*around, case(2000, compared(0.7, "UNDECIDED")))
    assert found.crossings == (Crossing(1024, 4096, pytest.approx(2048)),)


def test_an_arm_may_cross_more_than_once():
    verdicts = [(0.5, "FASTER"), (2.0, "SLOWER"), (0.5, "FASTER"), (1.0, "SAME"), (1.2, "SLOWER")]
    cases = [case(1024 * 4**n, compared(ratio, verdict)) for n, (ratio, verdict) in enumerate(verdicts)]
    assert one(*cases).crossings == (
        Crossing(1024, 4096, pytest.approx(2048)),
        Crossing(4096, 16384, pytest.approx(8192)),
        Crossing(16384, 65536, None),
    )


@pytest.mark.parametrize("verdicts", [("FASTER", "FASTER"), ("SAME", "SLOWER"), ("UNDECIDED", "FASTER")])
def test_where_nothing_is_won_or_lost_there_is_no_break_even(verdicts):
    ratios = {"FASTER": 0.9, "SAME": 1.0, "SLOWER": 1.1, "UNDECIDED": 1.0}
    cases = [case(1024 * (n + 1), compared(ratios[it], it)) for n, it in enumerate(verdicts)]
    found = one(*cases)
    assert found.crossings == ()


def test_the_gain_over_a_traffic_is_the_ratio_of_summed_times(tmp_path):
    """Two steps at 1,000, one at 3,000, one half way: 10, 30 and 20 ms for the baseline, 5, 33 and 19 for the arm."""
    cases = [case(1000, compared(0.5, half=0.02)), case(3000, compared(1.1, "SLOWER", half=0.1), base=0.03, fast=False)]
    (found,) = one(*cases, traffic=trace(tmp_path, 999, 999, 1999, 2999)).weighted
    assert (found.traffic, found.source, found.metric, found.counted) == ("mine", "mine", "tpot", "decode steps")
    assert found.ratio == pytest.approx((5 + 5 + 19 + 33) / (10 + 10 + 20 + 30))
    low, high = (5 - 0.2) * 2 + (5 - 0.2 + 33 - 3) / 2 + 33 - 3, (5 + 0.2) * 2 + (5 + 0.2 + 33 + 3) / 2 + 33 + 3
    assert (found.low, found.high) == (pytest.approx(low / 70), pytest.approx(high / 70))
    assert found.covered == 1


def test_what_lies_beyond_the_measured_contexts_is_left_out_and_counted(tmp_path):
    cases = [case(1000, compared(0.5)), case(3000, compared(1.0, "SAME"), base=0.03, fast=False)]
    (found,) = one(*cases, traffic=trace(tmp_path, 10, 999, 2999, 5000)).weighted
    assert found.ratio == pytest.approx((5 + 30) / 40)
    assert found.covered == 0.5
    assert not one(*cases, traffic=trace(tmp_path, 10, 5000)).weighted


def test_shares_on_the_fast_path_and_batches_that_are_wholly_on_it(tmp_path):
    """Below the lowest context it is taken as well, between a context with and one without it is not counted."""
    cases = [case(1000, compared(0.5)), case(2051, compared(0.5)), case(2052, compared(1.0, "SAME"), fast=False)]
    (found,) = one(*cases, traffic=trace(tmp_path, 10, 999, 2050, 2051)).weighted
    assert found.on_fast_path == 0.75
    assert (found.batch, found.batches) == (4, pytest.approx(0.75**4))
    slow = [case(1000, compared(1.0), fast=False), case(2051, compared(1.0), fast=False)]
    (found,) = one(*slow, traffic=trace(tmp_path, 999)).weighted
    assert (found.on_fast_path, found.batches) == (0, None)


def test_a_fast_path_that_the_host_does_not_take_cannot_be_seen(tmp_path):
    cases = [case(n, compared(0.5), fast=False) for n in (1000, 3000)]
    assert one(*cases, traffic=trace(tmp_path, 999)).fast_path == ()
    for each in cases:
        each.arms["batch"] = replace(each.arms["batch"], path=FastPath(0, 4, 0, 1, expected=False))
    found = one(*cases, traffic=trace(tmp_path, 999))
    assert (found.fast_path, found.weighted[0].on_fast_path, found.weighted[0].batches) == (None, None, None)


def test_prompts_are_weighed_by_prompts(tmp_path):
    traffic = {"mine": Traffic(prompts=[Bin(512, 1.0), Bin(1024, 1.0)], decodes=[Bin(9, 1.0)])}
    cases = [case(n, compared(0.5, metric="ttft"), workload="prefill") for n in (512, 1024)]
    (found,) = one(*cases, traffic=traffic).weighted
    assert (found.metric, found.counted) == ("ttft", "requests")
    assert found.covered == pytest.approx(0.5, abs=0.04) and found.ratio == pytest.approx(0.5)


def test_one_context_or_no_interval_or_mixed_lengths(tmp_path):
    traffic = trace(tmp_path, 999)
    assert applied(case(1000, compared(0.5)), traffic=traffic) == ()
    (found,) = one(case(900, compared(0.5)), case(1100, compared(0.5, half=None)), traffic=traffic).weighted
    assert (found.ratio, found.low, found.high) == (pytest.approx(0.5), None, None)
    assert applied(case(1000, compared(0.5), workload="serve"), traffic=traffic) == ()


def test_modes_are_ladders_of_their_own():
    cases = [
        case(context, compared(ratio, verdict), mode=mode)
        for ratio, verdict, mode in [(0.5, "FASTER", "warm"), (1.5, "SLOWER", "cold")]
        for context in (1000, 2000)
    ]
    assert [(found.mode, found.faster) for found in applied(*cases)] == [("warm", (1000, 2000)), ("cold", ())]


def test_the_interval_over_a_traffic_holds_whenever_those_of_the_contexts_do(tmp_path):
    random, traffic = np.random.default_rng(0), trace(tmp_path, *range(999, 3000, 10))
    for _ in range(20):
        ratios = random.uniform(0.8, 1.2, 3)
        true = ratios + random.uniform(-0.02, 0.02, 3)
        base = random.uniform(0.01, 0.03, 3)
        places = (1000, 1700, 3000)
        given = [case(n, compared(r, half=0.02), base=b) for n, r, b in zip(places, ratios, base, strict=True)]
        exact = [case(n, compared(r, half=0.0), base=b) for n, r, b in zip(places, true, base, strict=True)]
        (found,), (truth,) = one(*given, traffic=traffic).weighted, one(*exact, traffic=traffic).weighted
        assert found.low <= truth.ratio <= found.high
