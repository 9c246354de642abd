"""Parts are what the layers did, no more and no less."""

from collections import Counter
from contextlib import contextmanager

import pytest
import torch

from pipeline.engine.arms.arm import StackArm
from pipeline.engine.arms.journal import Journal
from pipeline.engine.arms.parts import PER_GRAPH, Part, Place, Work, parts
from tests.engine.layers import caches_of
from tests.engine.runnable import arm_on, asked

REQUESTS = [asked(29, 30, 3), asked(60, 61, 3)]
WHOLE = {
    "swa": {"project", "norm", "ingest", "attend", "emit"},
    "csa": {"project", "norm", "ingest", "compress", "select", "attend", "emit"},
    "hca": {"project", "norm", "ingest", "compress", "cover", "attend", "emit"},
}
INSIDE = {"project", "score", "topk", "locate"}


def arm(name: str, variant: str, *overrides: str) -> StackArm:
    made = arm_on(
        REQUESTS, "engine=default", "engine.device=cpu", "engine.dtype=fp32", "engine.layers=4", *overrides,
        variant=variant,
    )  # fmt: skip
    made.name = name
    return made


def stages_of(found: list[Part], name: str) -> Counter:
    return Counter(part.place for part in found if name in part.arms)


def test_every_stage_of_every_kind_has_one_part():
    found = stages_of(parts([arm("a", "never")], [0, 2]), "a")
    expected = {Place(kind, stage, None) for kind, names in WHOLE.items() for stage in names}
    assert found == Counter(expected | {Place("csa", stage, "select") for stage in INSIDE})


def test_a_kind_counts_its_layers_and_a_layer_its_calls():
    made = arm("a", "never")
    assert set(made.blueprint.kinds) == set(WHOLE) and len(made.blueprint.kinds) == 4
    for part in parts([made], [0]):
        work = part.work[0]
        assert work.layers == made.blueprint.kinds.count(part.place.kind)
        several = {None: 3 + (part.place.kind != "swa"), "select": 2}
        assert len(work.calls) == (several[part.place.within] if part.place.stage == "project" else 1)


def test_arms_share_what_they_do_alike():
    made = [arm(name, variant) for name, variant in (("never", "never"), ("batch", "batch"), ("control", "never"))]
    found = parts(made, [0])
    for part in found:
        assert ("never" in part.arms) == ("control" in part.arms)
    own = {part.place.stage for part in found if part.arms == ["batch"]}
    assert own == {"select"}, "the shortcut is part of it; scores are needed here, and what follows is the same"
    assert sum(part.arms == ["never", "batch", "control"] for part in found) == len(found) - 2


def test_what_layers_share_counts_once_a_step_and_is_no_part_of_arms_that_make_it_anew():
    hca = ("model.schedule=[hca,hca,hca,hca]", "engine.layers=all")
    made = [arm(name, "never", *hca, f"arms.never.share={share}") for name, share in (("anew", False), ("once", True))]
    found = [part for part in parts(made, [0]) if part.place.stage == "cover"]
    assert [(part.arms, part.work[0].layers) for part in found] == [(["anew"], 4), (["once"], 1)]


def test_an_arm_that_scores_no_row_has_no_part_that_scores():
    few = [asked(5, 6, 2)]
    skipping = arm_on(few, "engine.device=cpu", "engine.dtype=fp32", "engine.layers=csa", variant="batch")
    found = stages_of(parts([skipping], [0]), skipping.name)
    assert Place("csa", "locate", "select") in found
    assert not {Place("csa", stage, "select") for stage in INSIDE - {"locate"}} & set(found)


def test_each_arm_runs_within_what_it_is_given():
    log = []

    @contextmanager
    def running(name):
        log.append(name)
        yield
        log.append("done")

    made = [arm("a", "never"), arm("b", "batch"), arm("c", "never")]
    parts(made, [0], running)
    assert log == ["a", "done", "b", "done"], "the third does what the first does"


@pytest.mark.parametrize("variant", ["never", "row"])
def test_done_again_they_leave_the_caches_as_they_were(variant):
    made = arm("a", variant)
    found = parts([made], [0, 1])
    for step in (0, 1):
        made.prepare(step)
        made.step(step)
    left = [cache.data.view(torch.uint8).clone() for caches in made.caches for _, cache in caches_of(caches)]
    for step in (0, 1):
        for part in found:
            part.prepare(step)
            part.step(step)
    now = [cache.data.view(torch.uint8) for caches in made.caches for _, cache in caches_of(caches)]
    assert all(torch.equal(before, after) for before, after in zip(left, now, strict=True))


def test_what_is_done_again_is_not_written_into_a_journal():
    made = arm("a", "never")
    journal = Journal(keeps=True)
    noted = made.with_stages(journal.noted(made.stages))
    noted.prepare(0)
    noted.step(0)
    before = len(journal.notes)
    assert {note.within for note in journal.notes if note.name == "score"} == {"select"}
    for note in journal.notes[:before]:
        note.stage(*note.arguments)
    assert len(journal.notes) == before


def test_noted_layers_give_what_the_layers_give():
    made = arm("a", "row")
    noted = made.with_stages(Journal(keeps=False).noted(made.stages))
    for step in range(3):
        made.prepare(step)
        plain = [output.y.clone() for output in made.step(step)]
        assert all(torch.equal(one, other.y) for one, other in zip(plain, noted.step(step), strict=True))


def test_projections_of_a_layer_are_those_of_its_weights():
    found = parts([arm("a", "never", "engine.layers=csa")], [0])
    [work] = [part.work[0] for part in found if part.place == Place("csa", "project", None)]
    *staged, (compressed, (x,)) = work.calls
    held = compressed.__self__.weights
    assert [weight.shape for _, (_, weight) in staged] == [held.q_kv.shape, held.q.shape, held.o_b.shape]
    assert compressed(x).shape == (2, held.compress.shape[0]) and compressed(x).dtype == torch.float32


def test_a_prompt_in_a_workspace_is_gathered_and_combined():
    prompts = [asked(0, 40), asked(7, 30)]
    made = arm_on(prompts, "engine.device=cpu", "engine.dtype=fp32", "engine.layers=4", variant="gathered")
    found = parts([made], [0])
    places = stages_of(found, made.name)
    for kind in ("csa", "hca", "swa"):
        assert places[Place(kind, "gather", None)] == places[Place(kind, "combine", None)] == 1
    assert places[Place("csa", "select", None)] == places[Place("csa", "score", "select")] == 1
    assert not [place for place in places if place.stage in ("locate", "cover")]
    assert all(part.work[0].gathered for part in found)
    straight = arm_on(prompts, "engine.device=cpu", "engine.dtype=fp32", "engine.layers=4", variant="never")
    straight.name = "straight"
    attends = [part for part in parts([made, straight], [0]) if part.place == Place("csa", "attend", None)]
    assert [part.arms for part in attends] == [["arm"], ["straight"]], "what they attend differs"
    for part in found:
        part.step(0)


def test_a_graph_holds_the_calls_behind_what_flushes(monkeypatch):
    log = []

    class Graph:
        def replay(self):
            log.append("replay")

    @contextmanager
    def capturing(graph):
        log.append("capture")
        yield
        log.append("captured")

    monkeypatch.setattr("torch.cuda.synchronize", lambda: log.append("wait"))
    monkeypatch.setattr("torch.cuda.CUDAGraph", Graph)
    monkeypatch.setattr("torch.cuda.graph", capturing)
    work = Work("kernel", ((log.append, ("stage",)),), 1.0, False, False)
    part = Part(
        "a", Place("csa", "attend", None), {0: work, 1: work}, ["a"], frozenset([0, 2]), lambda: log.append("read")
    )
    part.prepare(0)
    assert log == ["read", "stage", "wait", "capture", *["read", "stage"] * PER_GRAPH, "captured"]
    part.prepare(0)
    part.step(0)
    assert log[-2:] == ["captured", "replay"], "captured once"
    del log[:]
    for step in (1, 2):
        part.prepare(step)
        part.step(step)
    assert log == ["stage"], "no graph where the arm has none, nothing where the stage is not called"
    del log[:]
    Part("", None, {}, [], frozenset([0]), lambda: log.append("read")).prepare(0)
    assert log == ["read", "wait", "capture", *["read"] * PER_GRAPH, "captured"]
