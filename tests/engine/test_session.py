"""A refused step changes nothing: what follows is as if it had never been asked."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from tests.engine.layers import Shape, fed_in

SHAPE = Shape("csa")
WIDTH = 256


def opened(kind: str = "csa"):
    session = Shape(kind).session("row", max_tokens=40, max_requests=2)
    session.feed({"a": SHAPE.hidden(11)})
    return session


def good(tokens: int = 3) -> torch.Tensor:
    return SHAPE.hidden(tokens, 1)


REFUSED = {
    "nothing": ({}, "feed: no request"),
    "narrow": ({"a": good(), "b": torch.zeros(3, 5)}, r"request 'b': got torch.float32 \[3, 5\]; .*\[n, 256\]"),
    "no tokens": ({"a": good(), "b": torch.zeros(0, WIDTH)}, r"request 'b': got torch.float32 \[0, 256\]; .* n >= 1"),
    "one row": ({"a": good(), "b": torch.zeros(WIDTH)}, r"request 'b': got torch.float32 \[256\]"),
    "integers": ({"a": good(), "b": torch.zeros(3, WIDTH, dtype=torch.int32)}, r"got torch.int32 .* floating point"),
    "no tensor": ({"a": good(), "b": [[0.0] * WIDTH]}, "request 'b': got a list; give a tensor"),
    "too long": ({"b": good(), "a": good(30)}, "request 'a': 11 \\+ 30 tokens pass max_tokens=40; feed fewer"),
    "too many": (
        {"a": good(), "b": good(), "c": good()},
        "1 requests are held and 2 are new, more than max_requests=2",
    ),
}


def assert_goes_on(session) -> None:
    """As a session that was never asked for anything else."""
    fresh, step = opened(), {"a": SHAPE.hidden(6, 2), "b": SHAPE.hidden(20, 3)}
    assert session.lengths == fresh.lengths
    for _ in range(2):
        given, expected = session.feed(step, padding=1), fresh.feed(step, padding=1)
        for name in step:
            assert torch.equal(given[name].output, expected[name].output)
            assert torch.equal(given[name].selected, expected[name].selected)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_step_changes_nothing(name):
    hidden, message = REFUSED[name]
    session = opened()
    with pytest.raises(ValueError, match=message):
        session.feed(hidden)
    assert_goes_on(session)


@pytest.mark.parametrize("padding", [-1, 1.5])
def test_padding_is_a_number_of_rows(padding):
    session = opened()
    with pytest.raises(ValueError, match=f"padding={padding}: must be a whole number of rows, 0 or more"):
        session.feed({"a": good()}, padding)
    assert_goes_on(session)


def test_every_fault_is_told():
    with pytest.raises(ValueError) as caught:
        opened().feed({"b": torch.zeros(3, 5), "a": good(30), "c": good()}, padding=-1)
    assert len(str(caught.value).splitlines()) == 4


@pytest.mark.parametrize("full", ["window", "csa.entries", "csa.state"])
def test_full_caches_refuse_the_whole_step(full):
    session = opened()
    pool, taken = session.pools[full], 0
    free = list(pool._free)
    while pool._free:
        pool.extend(99 + taken, 0, pool.space.page_size * pool.space.tokens_per_row)
        taken += 1
    before = {name: deepcopy(each.tables) for name, each in session.pools.items()}
    with pytest.raises(ValueError, match=r"the cache is full: \d+ more pages of \d+ rows are needed"):
        session.feed({"a": SHAPE.hidden(1, 2), "b": SHAPE.hidden(20, 3)})
    assert {name: each.tables for name, each in session.pools.items()} == before
    for number in range(taken):
        pool.drop(99 + number)
    pool._free[:] = free
    assert_goes_on(session)


def test_a_step_that_a_kernel_breaks_off_can_be_fed_again():
    session = opened()
    whole = session.layer

    def broken(*_):
        raise RuntimeError("the kernel")

    session.layer = replace(whole, stages=replace(whole.stages, attend=broken))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the kernel"):
            session.feed({"a": SHAPE.hidden(6, 2), "b": SHAPE.hidden(20, 3)})
    assert session.lengths == {"a": 11, "b": 0}
    session.layer = whole
    session.drop("b")
    assert_goes_on(session)


def test_an_unknown_name_is_not_dropped():
    session = opened()
    with pytest.raises(ValueError, match="drop: there is no request 'z'; held are: 'a'"):
        session.drop("z")
    assert_goes_on(session)
    session.drop("a")
    session.drop("b")
    with pytest.raises(ValueError, match="held are: none"):
        session.drop("a")


@pytest.mark.parametrize(("tokens", "requests"), [(0, 1), (-1, 1), (1 << 21, 1), (8, 0)])
def test_limits_that_cannot_be(tokens, requests):
    with pytest.raises(ValueError, match=f"max_tokens={tokens}, max_requests={requests}: max_tokens must be from 1 to"):
        SHAPE.session("row", max_tokens=tokens, max_requests=requests)


@pytest.mark.parametrize("kind", ["swa", "csa", "hca"])
@pytest.mark.parametrize("chunks", [[40], [1] * 40, [39, 1]], ids=len)
def test_the_limits_can_be_reached_in_every_way(kind, chunks):
    shape = Shape(kind)
    session = shape.session("row", max_tokens=40, max_requests=2)
    hidden = {name: shape.hidden(40, seed) for seed, name in enumerate("ab")}
    for name, states in hidden.items():
        fed = fed_in(session, name, states, chunks)
        expected, _ = shape.oracle()(states)
        torch.testing.assert_close(fed.output, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["swa", "csa", "hca"])
def test_pages_of_a_dropped_request_serve_the_next(kind):
    """Its rows still hold the old values, and nothing of them is seen."""
    shape = Shape(kind)
    session = shape.session("row", max_tokens=40, max_requests=2)
    stays = shape.hidden(40, 9)
    outputs = [session.feed({"stays": stays[:20], "old": shape.hidden(40, 1)})["stays"].output]
    owned = {name: set(pool.tables[1]) for name, pool in session.pools.items()}
    session.drop("old")
    new = shape.hidden(40, 2)
    fed = session.feed({"new": new, "stays": stays[20:]})
    outputs.append(fed["stays"].output)
    assert any(owned[name] & set(pool.tables[session._numbers["new"]]) - {0} for name, pool in session.pools.items())
    fresh = shape.session("row", max_tokens=40, max_requests=2)
    for name, actual, states in (("new", fed["new"].output, new), ("stays", torch.cat(outputs), stays)):
        alone = fresh.feed({name: states})[name]
        torch.testing.assert_close(actual, alone.output, atol=1e-5, rtol=1e-5)
