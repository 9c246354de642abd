"""A check that cannot fail is worthless: arms with one thing wrong must not pass, whatever it is."""

from dataclasses import replace

import pytest
import torch

from kernels.contracts import Scored
from pipeline.engine.bench import bench
from pipeline.engine.stack import DTYPES, blueprint
from pipeline.evidence.check import TOLERANCES, Checker, shortfall
from pipeline.stages import stages
from pipeline.work.schedule import schedule
from pipeline.work.workload import cases
from tests.compose import config


def judged(engine: str, change=lambda stages: stages, *overrides: str):
    made = config(
        "+exp=short_ctx", "model=tiny", f"engine={engine}", "engine.device=cpu", "engine.dtype=fp32", *overrides
    )
    if engine == "default":
        made = replace(made, engine=replace(made.engine, dtype="bf16"))
    [case] = cases({"decode": replace(made.workloads["decode"], ladder=[40], boundary=None)}, made.model, 0)
    stack = blueprint(made, case.context)
    arm = change(stages(made.arms["never"]))
    built = bench(made, case, schedule(case.requests, 64, 8192, True), stack, {"arm": arm}, stages(made.reference))
    return Checker(built.reference, TOLERANCES[DTYPES[made.engine.dtype]])(built.arms[0])


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


def test_shortfall_is_how_far_a_better_entry_was_left_out():
    scores = torch.tensor([[4.0, 3.0, 2.0, 1.0, torch.nan]])
    seen = torch.tensor([[True] * 4 + [False]])
    scores = scores.nan_to_num(-torch.inf)
    spread = torch.tensor([4.0, 3.0, 2.0, 1.0]).std(correction=0)
    best, second = torch.tensor([[True, True, False, False, False]]), torch.tensor([[True, False, False, True, False]])
    assert shortfall(scores, best, seen) == 0
    assert shortfall(scores, second, seen) == pytest.approx(float(2 / spread))
