"""Arms on requests of one's own, on the tiny model."""

from dataclasses import replace

from pipeline.door.stages import stages
from pipeline.engine.arms.arm import StackArm
from pipeline.engine.arms.bench import Arms, bench
from pipeline.engine.stack import blueprint
from pipeline.work.schedule import schedule
from pipeline.work.workload import Case, Request
from tests.compose import config
from tests.engine.layers import poison


def asked(cached: int, prompt: int, output: int = 1) -> Request:
    return Request(0.0, cached, prompt, output)


def arm_on(
    requests: list[Request], *overrides: str, variant: str = "row", seats: int = 8, budget: int = 64
) -> StackArm:
    """With poisoned caches."""
    made = config(
        *("+exp=short_ctx", "model=tiny", "engine=plain", "engine.device=cpu", f"variant@arms.never={variant}"),
        *overrides,
    )
    longest = max(request.context for request in requests)
    case = Case("mine", "mine", longest, tuple(requests), "digest")
    steps = schedule(requests, seats, budget, True)
    arms = Arms(blueprint(made, longest), {"arm": stages(made.arms["never"])}, stages(made.reference))
    [arm] = bench(made, case, steps, arms).arms
    for caches in arm.caches:
        poison(caches)
    return arm


def with_stage(arm: StackArm, scope: str, wrap) -> StackArm:
    """The same arm with one stage wrapped."""
    held = arm.stages
    if held.prefill and hasattr(held.prefill, scope):
        return arm.with_stages(
            replace(held, prefill=replace(held.prefill, **{scope: wrap(getattr(held.prefill, scope))}))
        )
    if hasattr(held, scope):
        return arm.with_stages(replace(held, **{scope: wrap(getattr(held, scope))}))
    return arm.with_stages(replace(held, select=replace(held.select, **{scope: wrap(getattr(held.select, scope))})))
