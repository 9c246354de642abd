"""The parts in a row: whatever is skipped and whoever computes, the same slots are attended."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from select_cases import Case, Step, definition, entries_of, implementations

PARTS = ("shortcut", "score", "topk", "locate")
REFERENCE = tuple(definition(part) for part in PARTS)
SHORTCUTS = {"reference": REFERENCE[0], **implementations("shortcut")}
COMBINATIONS = [
    REFERENCE,
    *product(
        SHORTCUTS.values(),
        implementations("score").values(),
        implementations("topk").values(),
        (REFERENCE[3], *implementations("locate").values()),
    ),
]
MIXED = Case(((0, 17), (30, 31), (90, 97), (2, 3), (45, 46)), padding=3)


def slot_sets(step: Step, parts: tuple, topk: int) -> list[list[int]]:
    slots, lengths = step.slots(*parts, topk)
    assert slots.shape == (len(step.q), topk)
    sets = entries_of(slots)
    assert [len(row) for row in sets] == lengths.tolist()
    return sets


def by_hand(step: Step, topk: int) -> list[list[int]]:
    """From the reference's scores alone: the best visible entries of each real token, in slots."""
    scores, rows, pages = step.scores(REFERENCE[1]).tolist(), step.batch.rows, step.pages
    sets = []
    for token, (position, request) in enumerate(zip(rows.positions.tolist(), rows.request.tolist(), strict=True)):
        visible = range((position + 1) // step.ratio if rows.valid[token] else 0)
        best = sorted(visible, key=lambda entry, row=scores[token]: (-row[entry], entry))[:topk]
        table = pages.block_table[request].tolist()
        sets.append(sorted(table[i // pages.page_size] * pages.page_size + i % pages.page_size for i in best))
    return sets


@pytest.mark.parametrize("topk", [1, 3, 6, 24, 768])
@pytest.mark.parametrize("case", [MIXED, replace(MIXED, layout="fp8", ratio=1), replace(MIXED, ratio=128)], ids=repr)
def test_every_combination_attends_the_same(case, topk, device):
    step = case.build(device)
    expected = by_hand(step, topk)
    for parts in COMBINATIONS:
        assert slot_sets(step, parts, topk) == expected, parts


@pytest.mark.parametrize("residue", range(-1, 5))
@pytest.mark.parametrize("topk", [2, 3, 8])
def test_skip_is_never_around_the_boundary(topk, residue, device):
    length = 4 * topk + residue
    for case in (Case(((0, length),)), Case(((length - 1, length), (1, 2))), Case(((2, 5), (length - 1, length)))):
        step = case.build(device)
        expected = by_hand(step, topk)
        for parts in COMBINATIONS:
            assert slot_sets(step, parts, topk) == expected, parts


@pytest.mark.parametrize("case", [Case(((0, 40),)), Case(((39, 40), (6, 7), (20, 22)), layout="fp8")], ids=repr)
def test_equal_scores_choose_the_lowest_entries(case, device):
    step = case.build(device)
    level = replace(step, q=torch.zeros_like(step.q))
    visible = step.batch.rows.visible(4).tolist()
    requests = step.batch.rows.request.tolist()
    tables = step.pages.block_table.tolist()
    expected = [
        sorted(tables[request][i // 4] * 4 + i % 4 for i in range(min(count, 3)))
        for request, count in zip(requests, visible, strict=True)
    ]
    for parts in COMBINATIONS:
        assert slot_sets(level, parts, 3) == expected, parts


@pytest.mark.parametrize(("length", "scores"), [(11, 0), (12, 1)])
@pytest.mark.parametrize("shortcut", implementations("shortcut").values(), ids=lambda shortcut: shortcut.__module__)
def test_a_skipped_step_scores_nothing(shortcut, length, scores, device):
    calls = []

    def counted(*args):
        calls.append(args)
        return REFERENCE[1](*args)

    step = Case(((length - 1, length),)).build(device)
    assert slot_sets(step, (shortcut, counted, *REFERENCE[2:]), 2) == by_hand(step, 2)
    assert len(calls) == scores


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_request_with_broken_scores_harms_no_other(poison, device):
    step = Case(((30, 31), (44, 46), (60, 61))).build(device)
    broken = replace(step, weights=step.weights.index_fill(0, torch.tensor([1], device=device), poison))
    sound, choice = slot_sets(step, REFERENCE, 3), slot_sets(broken, REFERENCE, 3)[1]
    assert len(choice) == 3
    for parts in COMBINATIONS:
        assert slot_sets(broken, parts, 3) == [sound[0], choice, *sound[2:]], parts
