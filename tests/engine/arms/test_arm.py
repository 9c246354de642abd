from itertools import product

import pytest
import torch

from tests.engine.layers import caches_of, poison
from tests.engine.runnable import arm_on, asked

ONE_AFTER_THE_OTHER = [asked(20, 21, 2), asked(33, 34, 2)]


def known_rows(arm) -> list[torch.Tensor]:
    """Which rows of each cache hold something."""
    return [
        ~cache.gather(torch.arange(cache.data.shape[0] * cache.page_size)).isnan().any(1)
        for caches in arm.caches
        for _, cache in caches_of(caches)
    ]


def prefix_rows(arm, step: int) -> list[torch.Tensor]:
    found = []
    for kind, caches in zip(arm.blueprint.kinds, arm.caches, strict=True):
        for name, cache in caches_of(caches):
            space = "window" if name == "window" else f"{kind}.{'state' if 'state' in name else 'entries'}"
            rows = torch.zeros(cache.data.shape[0] * cache.page_size, dtype=torch.bool)
            for prefix in arm.plan.prefixes[step]:
                rows[prefix.slots[space]] = True
            found.append(rows)
    return found


def poison_all(arm) -> None:
    for caches in arm.caches:
        poison(caches)


@pytest.mark.parametrize(("seats", "reuses"), [(1, True), (2, False)])
def test_prefixes_are_written_again_only_where_pages_change_hands(seats, reuses):
    arm = arm_on(ONE_AFTER_THE_OTHER, "engine.layers=3", seats=seats)
    assert arm.plan.reuses_pages is reuses
    steps = range(len(arm.plan.inputs))
    joins = [step for step in steps if arm.plan.prefixes[step]]
    assert len(joins) == (2 if reuses else 1)
    for again, step in product((False, True), steps):
        poison_all(arm)
        arm.prepare(step)
        for known, wanted in zip(known_rows(arm), prefix_rows(arm, step), strict=True):
            assert torch.equal(known, wanted if reuses or not again else torch.zeros_like(wanted))


def test_rounds_repeat_bit_by_bit_though_pages_change_hands():
    arm = arm_on([*ONE_AFTER_THE_OTHER, asked(0, 30, 3)], "engine.layers=4", seats=1, budget=16)
    assert arm.plan.reuses_pages
    rounds = []
    for _ in range(2):
        rounds.append([])
        for step in range(len(arm.plan.inputs)):
            arm.prepare(step)
            rounds[-1] += [output.y for output in arm.step(step)]
    assert all(one.isfinite().all() and torch.equal(one, other) for one, other in zip(*rounds, strict=True))


def test_two_arms_have_the_same_prefixes_and_caches_of_their_own():
    one, other = (arm_on(ONE_AFTER_THE_OTHER, "engine.layers=3") for _ in range(2))
    for arm in (one, other):
        arm.prepare(0)
    for mine, theirs in zip(one.caches, other.caches, strict=True):
        for (_, first), (_, second) in zip(caches_of(mine), caches_of(theirs), strict=True):
            assert torch.equal(first.data.view(torch.uint8), second.data.view(torch.uint8))
    poison_all(one)
    assert not any(rows.any() for rows in known_rows(one))
    assert all(rows.any() for rows in known_rows(other))
