"""A check that cannot fail is worthless: arms with one thing wrong must not pass, whatever it is."""

from dataclasses import replace

import pytest
import torch

from kernels.contracts import Scored
from pipeline.door.stages import stages
from pipeline.engine.arms.bench import Arms, bench
from pipeline.engine.stack import blueprint
from pipeline.evidence.check import Checker, shortfall
from pipeline.work.schedule import schedule
from pipeline.work.workload import cases
from tests.compose import config


def judged(engine: str, *changes, layers: str = "csa", prompt: int | None = None, requests: int = 4, **more):
    """Outcome of the last of several arms, each with its change; a decode, or a prefill."""
    dtype = {"plain": "fp32", "default": "bf16"}[engine]
    options = (f"engine={engine}", "engine.device=cpu", f"engine.dtype={dtype}", f"engine.layers={layers}")
    made = config("+exp=short_ctx", "model=tiny", *options)
    made = replace(made, engine=replace(made.engine, **more))
    name, ladder = ("decode", [40]) if prompt is None else ("prefill", [prompt])
    asked = replace(made.workloads[name], ladder=ladder, boundary=None, num_requests=requests)
    [case] = cases({name: asked}, made.model, 0)
    stack = blueprint(made, case.context)
    arms = {f"arm{n}": change(stages(made.arms["never"])) for n, change in enumerate(changes or [lambda arm: arm])}
    steps = schedule(case.requests, made.engine.max_num_seqs, made.engine.max_num_batched_tokens, True)
    built = bench(made, case, steps, Arms(stack, arms, stages(made.reference)))
    checker = Checker(built.reference)
    return [checker(arm) for arm in built.arms][-1]


def with_part(part, wrapped):
    return lambda arm: replace(arm, select=replace(arm.select, **{part: wrapped(getattr(arm.select, part))}))


def with_stage(stage, wrapped):
    return lambda arm: replace(arm, **{stage: wrapped(getattr(arm, stage))})


@pytest.mark.parametrize("engine", ["plain", "default"])
def test_the_arm_as_it_is_passes(engine):
    found = judged(engine)
    assert found.passed, found.detail
    assert 0 < found.error < found.tolerance


def all_but_best(topk):
    """Takes the best topk + 1 and leaves the first out."""
    return lambda scores, visible, k: topk(scores.scatter(1, scores.argmax(1, keepdim=True), -torch.inf), visible, k)


def one_short(topk):
    def chosen(scores, visible, k):
        found = topk(scores, visible, k)
        found[:, -1] = -1
        return found

    return chosen


def repeated(topk):
    def chosen(scores, visible, k):
        found = topk(scores, visible, k)
        found[:, 1] = found[:, 0]
        return found

    return chosen


def next_request(locate):
    """Slots of another request."""

    def located(*call):
        slots, lengths = locate(*call)
        return slots.roll(1, 0), lengths

    return located


def no_sink(attend):
    return lambda q, keys, sink, scale: attend(q, keys, None, scale)


def steeper(attend):
    return lambda q, keys, sink, scale: attend(q, keys, sink, scale * 1.1)


def not_turned_back(emit):
    return lambda o, rope, rows, *weights: emit(o, rope, replace(rows, positions=rows.positions * 0), *weights)


def one_nan(emit):
    return lambda *call: emit(*call).index_fill_(1, torch.tensor([0]), torch.nan)


def no_ape(compress):
    return lambda streams, *rest: compress([replace(each, ape=torch.zeros_like(each.ape)) for each in streams], *rest)


def main_only(compress):
    return lambda streams, *rest: compress(streams[:1], *rest)


def skip_all(shortcut):
    return lambda *call: Scored(torch.empty(0, dtype=torch.int64))


WRONG = {
    "attend without the sink": with_stage("attend", no_sink),
    "attend with a wrong scale": with_stage("attend", steeper),
    "emit that does not turn back": with_stage("emit", not_turned_back),
    "output with one NaN": with_stage("emit", one_nan),
    "compress that forgets ape": with_stage("compress", no_ape),
    "compress of the main cache only": with_stage("compress", main_only),
    "topk that misses the best": with_part("topk", all_but_best),
    "topk one short": with_part("topk", one_short),
    "topk with a repeat": with_part("topk", repeated),
    "locate in another request": with_part("locate", next_request),
    "shortcut that skips long rows": with_part("shortcut", skip_all),
}


@pytest.mark.parametrize("engine", ["plain", "default"])
@pytest.mark.parametrize("fault", WRONG)
def test_one_thing_wrong_is_seen(fault, engine):
    found = judged(engine, WRONG[fault])
    assert not found.passed, found.detail


def one_entry_less(locate):
    def located(*call):
        slots, lengths = locate(*call)
        last = (lengths - 1).clamp(min=0).long()[:, None]
        return slots.scatter(1, last, -1), (lengths - 1).clamp(min=0)

    return located


def everything(locate):
    """All visible entries, however many topk allows."""

    def located(chosen, scored, rows, pages, ratio, width):
        none = Scored(torch.empty(0, dtype=torch.int64))
        return locate(None, none, rows, pages, ratio, int(rows.visible(ratio).max()))

    return located


def one_row_lost(emit):
    return lambda *call: emit(*call).index_fill_(0, torch.tensor([777]), 0.0)


@pytest.mark.parametrize("engine", ["plain", "default"])
@pytest.mark.parametrize("cover", [next_request, one_entry_less])
def test_an_hca_selection_is_checked(cover, engine):
    assert judged(engine, layers="hca").passed
    assert not judged(engine, with_stage("cover", cover), layers="hca").passed


def test_a_swa_layer_is_checked():
    assert judged("default", layers="swa").passed
    assert not judged("default", with_stage("attend", no_sink), layers="swa").passed


def test_a_fault_in_any_layer_of_a_stack_is_seen():
    assert judged("default", layers="4").passed
    assert not judged("default", with_part("topk", one_short), layers="4").passed


def test_more_than_topk_entries_are_a_fault():
    assert not judged("plain", with_part("locate", everything)).passed


@pytest.mark.parametrize("engine", ["plain", "default"])
def test_one_lost_row_of_a_long_prefill_is_seen(engine):
    assert judged(engine, prompt=1024, requests=1).passed
    found = judged(engine, with_stage("emit", one_row_lost), prompt=1024, requests=1)
    assert not found.passed
    assert "row error" in found.detail


def other_ties(topk):
    """Of the two worst entries chosen, one replaced by the best left out: a selection unlike the first arm's."""

    def chosen(scores, visible, k):
        found = topk(scores, visible, k + 1)
        return torch.cat((found[:, : k - 1], found[:, k:]), 1) if found.shape[1] > k else found

    return chosen


def test_pages_that_change_hands_do_not_fail_a_right_arm():
    """Requests one after the other on the same pages; the wrong arm before must not colour what the next is held to."""
    right, wrong = (lambda arm: arm), with_part("topk", other_ties)
    found = judged("plain", wrong, right, prompt=60, requests=3, max_num_seqs=1, max_num_batched_tokens=16)
    assert found.passed, found.detail
    assert found.error < 1e-5


def test_shortfall_is_how_far_a_better_entry_was_left_out():
    scores = torch.tensor([[4.0, 3.0, 2.0, 1.0, torch.nan]])
    seen = torch.tensor([[True] * 4 + [False]])
    scores = scores.nan_to_num(-torch.inf)
    spread = torch.tensor([4.0, 3.0, 2.0, 1.0]).std(correction=0)
    best, second = torch.tensor([[True, True, False, False, False]]), torch.tensor([[True, False, False, True, False]])
    assert shortfall(scores, best, seen) == 0
    assert shortfall(scores, second, seen) == pytest.approx(float(2 / spread))
