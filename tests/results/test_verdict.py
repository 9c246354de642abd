from dataclasses import replace

from pipeline.results.verdict import found
from tests.results.cases import summary


def undecided(summary_):
    def arm(held):
        made = {name: replace(one, verdict="UNDECIDED", noise=8.89) for name, one in held.comparisons.items()}
        return replace(held, comparisons=made)

    cases = tuple(replace(case, arms={name: arm(held) for name, held in case.arms.items()}) for case in summary_.cases)
    clauses = ("the fast path of batch NEVER FIRED", "batch against never: UNDECIDED at every context")
    return replace(summary_, cases=cases, headline=clauses)


def test_a_run_that_decides_nothing_says_so_in_one_line():
    assert found(undecided(summary())) == [
        "This run decides NOTHING: the baseline differs from itself by up to 889.0%",
        "the fast path of batch NEVER FIRED",
    ]


def test_a_run_that_decides_anything_says_what():
    assert found(summary()) == list(summary().headline)
