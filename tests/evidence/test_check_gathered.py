"""Prompts attended from a workspace: right arms pass, and one thing wrong on the way there is seen."""

from dataclasses import replace

import pytest
import torch

from kernels.combine.eager import Combine
from kernels.gather.eager import Gather
from pipeline.engine.layer import Prefill
from tests.evidence.test_check import judged

LAYERS = ("swa", "csa", "hca", "4")


def gathered(gather=lambda it: it, combine=lambda it: it, share=False):
    return lambda arm: replace(arm, prefill=Prefill(gather(Gather()), combine(Combine())), share=share)


def found(change, engine="default", layers="csa"):
    """Two prompts in a step; then a chunk of one."""
    return judged(engine, change, layers=layers, prompt=50, requests=3, max_num_seqs=2, max_num_batched_tokens=70)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("engine", ["plain", "default"])
@pytest.mark.parametrize("layers", LAYERS)
def test_right_arms_pass(layers, engine, share):
    outcome = found(gathered(share=share), engine, layers)
    assert outcome.passed, outcome.detail


def one_before(combine):
    """Every index names the row before."""

    def combined(*call):
        indices, lengths = combine(*call)
        return indices.where(indices < 1, indices - 1), lengths

    return combined


def last_key_lost(combine):
    def combined(*call):
        indices, lengths = combine(*call)
        return indices, (lengths - 1).clamp(min=0)

    return combined


def entries_of_the_neighbour(combine):
    def combined(chosen, scored, batch, ratio, topk, space):
        indices, lengths = combine(chosen, scored, batch, ratio, topk, space)
        strange = (batch.rows.request == 1)[:, None] & (indices % space.rows < space.entries)
        return torch.where(strange, indices - space.rows, indices), lengths

    return combined


def tail_skipped(gather):
    """What a budget counted in the wrong unit leaves unwritten."""

    def rows(main, main_pages, window, window_pages, batch, ratio, space, dtype):
        cache = gather(main, main_pages, window, window_pages, batch, ratio, space, dtype)
        cache.data.view(len(batch.seq_lens), space.rows, -1)[:, space.entries - 2 : space.entries] = torch.nan
        return cache

    return rows


WRONG = {
    "the row before": gathered(combine=one_before),
    "the last key": gathered(combine=last_key_lost),
    "entries of another request": gathered(combine=entries_of_the_neighbour),
    "the tail of the entries": gathered(gather=tail_skipped),
}


@pytest.mark.parametrize("engine", ["plain", "default"])
@pytest.mark.parametrize("fault", WRONG)
def test_one_thing_wrong_is_seen(fault, engine):
    assert not found(WRONG[fault], engine).passed


@pytest.mark.parametrize("fault", ["the row before", "the last key"])
@pytest.mark.parametrize("layers", ["swa", "hca"])
def test_it_is_seen_in_layers_that_do_not_select(layers, fault):
    assert not found(WRONG[fault], layers=layers).passed
