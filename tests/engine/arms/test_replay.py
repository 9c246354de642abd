import pytest
import torch

from kernels.layouts import PlainCache
from pipeline.engine.arms.replay import Recorder, stage_arms
from pipeline.engine.select import Selection
from tests.engine.layers import caches_of, poison
from tests.engine.runnable import arm_on, asked, with_stage

SCOPES = ("ingest", "compress", "select", "score", "topk", "locate", "cover", "attend", "emit")
GATHERED = ("score", "topk", "gather", "combine", "attend")
REQUESTS = [asked(0, 37, 2), asked(29, 30, 2), asked(0, 5, 2)]


def tensors(output) -> list[torch.Tensor]:
    match output:
        case None:
            return []
        case torch.Tensor():
            return [output.clone()]
        case Selection():
            return [output.slots.clone(), output.lengths.clone()]
        case PlainCache():
            return [output.data.clone()]
        case tuple():
            return [each for part in output for each in tensors(part)]


def run(arm) -> None:
    for step in range(len(arm.plan.inputs)):
        arm.prepare(step)
        arm.step(step)


def bytes_of(arm) -> list[torch.Tensor]:
    return [cache.data.view(torch.uint8).clone() for caches in arm.caches for _, cache in caches_of(caches)]


def assert_equal(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("engine", ["engine=plain", "engine=default"])
@pytest.mark.parametrize("scope", SCOPES)
def test_replayed_it_gives_what_it_gave_in_the_run(scope, engine):
    assert_replayed("row", scope, engine)


@pytest.mark.parametrize("scope", GATHERED)
def test_so_it_does_where_prompts_are_gathered(scope):
    assert_replayed("shared", scope, "engine=default")


def assert_replayed(variant: str, scope: str, engine: str) -> None:
    overrides = (engine, "engine.device=cpu", "engine.dtype=fp32", "engine.layers=4")
    arm, seen = arm_on(REQUESTS, *overrides, variant=variant), []
    assert not arm.plan.reuses_pages

    class Remembered(Recorder):
        def __call__(self, *arguments):
            seen.append(tensors(output := super().__call__(*arguments)))
            return output

    run(with_stage(arm, scope, Remembered))
    left = bytes_of(arm)
    [replayed] = stage_arms([arm], scope)
    given = [tensors(output) for step in range(len(arm.plan.inputs)) for output in replayed.step(step)]
    assert len(given) == len(seen) > 0
    for actual, expected in zip(given, seen, strict=True):
        assert_equal(actual, expected)
    assert_equal(bytes_of(arm), left)


def test_arms_that_lay_out_their_keys_alike_share_inputs_and_others_have_their_own():
    arms = [arm_on(REQUESTS, "engine.layers=4", variant=name) for name in ("never", "row", "gathered", "shared")]
    never, row, gathered, shared = (arm.calls for arm in stage_arms(arms, "attend"))
    assert never is row and gathered is shared
    step = next(step for step, inputs in enumerate(arms[0].plan.inputs) if not inputs.decodes)
    assert [len(call[1]) for call in never[step]] == [1, 2, 2, 2]
    assert [len(call[1]) for call in gathered[step]] == [1] * 4
    assert all(call[1][0].cache.page_size == 1 for call in gathered[step])


def test_the_stages_that_write_write_all_of_their_rows_again():
    arm = arm_on([asked(0, 37, 2), asked(0, 5, 2)], "engine.layers=4")
    run(arm)
    left = bytes_of(arm)
    writers = [stage_arms([arm], scope)[0] for scope in ("ingest", "compress")]
    for caches in arm.caches:
        poison(caches)
    for step in range(len(arm.plan.inputs)):
        for writer in writers:
            writer.step(step)
    assert_equal(bytes_of(arm), left)


def test_a_stage_that_no_layer_has_gives_no_arms():
    assert stage_arms([arm_on(REQUESTS, "engine.layers=swa")], "compress") == []
    assert stage_arms([arm_on(REQUESTS, variant="row")], "gather") == []
