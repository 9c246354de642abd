"""A case made runnable: one plan and one set of inputs, shared by all arms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.engine.arms.arm import Arm, StackArm
from pipeline.engine.arms.graph import GraphArm, GraphStageArm
from pipeline.engine.arms.replay import stage_arms
from pipeline.engine.layer import Stages
from pipeline.engine.pages import spaces
from pipeline.engine.plan import Plan, plan
from pipeline.engine.stack import Blueprint
from pipeline.schema import Config
from pipeline.work.schedule import Step
from pipeline.work.workload import Case


@dataclass(frozen=True)
class Arms:
    """What arms are made of: a stack that all of them share, and stages of their own."""

    stack: Blueprint
    stages: Mapping[str, Stages]  # by arm, the first is the baseline
    reference: Stages  # what every arm is checked against


@dataclass(frozen=True)
class Bench:
    arms: tuple[StackArm, ...]
    reference: StackArm  # float32 weights and arithmetic, the same cache layouts


def bench(config: Config, case: Case, steps: Sequence[Step], arms: Arms) -> Bench:
    """Every arm has caches of its own."""
    engine, blueprint = config.engine, arms.stack
    layout, hidden = given(config, case, steps, blueprint)
    kind = GraphArm if engine.graph == "full" else StackArm
    return Bench(
        tuple(
            kind(name, blueprint, stages, layout, hidden, engine, config.seed) for name, stages in arms.stages.items()
        ),
        StackArm("reference", blueprint.float32(), arms.reference, layout, hidden, engine, config.seed),
    )


def given(config: Config, case: Case, steps: Sequence[Step], blueprint: Blueprint) -> tuple[Plan, list[Tensor]]:
    """The plan and the hidden states of every step: the same each time."""
    model = config.model
    needed = spaces(model, config.engine, set(blueprint.kinds))
    layout = plan(case.requests, steps, needed, model.window, config.seed, blueprint.device)
    return layout, hidden_states(layout, model.hidden, config.seed, blueprint)


def timed(arms: Sequence[StackArm], scope: str, cold: bool = False) -> Sequence[Arm]:
    """What runs under the clock: the arms, or one stage of each, as graphs where the arms are.

    `cold`: one call a graph, for the second would find warm what the first left. ArmFailed names the arm that raised
    while the inputs of its stage were recorded.
    """
    if scope == "stack" or not arms:
        return arms
    alone = stage_arms(arms, scope)
    if not isinstance(arms[0], GraphArm):
        return alone
    repeats = 1 if cold else GraphStageArm.repeats
    return [GraphStageArm(arm.name, arm.stage, arm.calls, repeats) for arm in alone]


def hidden_states(layout: Plan, width: int, seed: int, blueprint: Blueprint) -> list[Tensor]:
    """Unit normal input of each step [T, hidden]: overlapping views of one block, so that long runs need no memory."""
    longest = max(inputs.tokens for inputs in layout.inputs)
    generator = torch.Generator(blueprint.device).manual_seed(seed)
    block = torch.randn(2 * longest, width, generator=generator, device=blueprint.device).to(blueprint.dtype)
    starts = [number * 7919 % longest for number in range(len(layout.inputs))]
    return [block[start : start + inputs.tokens] for start, inputs in zip(starts, layout.inputs, strict=True)]
