import pytest

from pipeline.evidence.figures.family import family, judged, primary
from pipeline.work.workload import Case, Request

DECODE = (Request(0.0, 99, 100, 3),)
PREFILL = (Request(0.0, 0, 100, 1),)
SERVE = (Request(0.0, 99, 100, 3), Request(1.0, 40, 100, 3))


def case(workload: str, context: int, requests: tuple[Request, ...]) -> Case:
    return Case(f"{workload}-{context}", workload, context, requests, "d")


@pytest.mark.parametrize(
    ("requests", "scope", "first", "shown"),
    [
        (DECODE, "stack", "tpot", ("tpot",)),
        (PREFILL, "stack", "ttft", ("ttft",)),
        (SERVE, "stack", "tpot", ("ttft", "tpot")),
        (SERVE, "locate", "step", ("step",)),
        ((Request(0.0, 99, 100, 1),), "stack", "ttft", ("ttft",)),
    ],
)
def test_what_is_judged(requests, scope, first, shown):
    assert primary(requests, scope) == first
    assert judged(requests, scope) == shown


def test_the_family_is_what_has_a_verdict():
    """Two metrics of one serving case, six cases of two ladders, and a mean for each of the ladders in each mode."""
    ladder = [case("decode", context, DECODE) for context in (8, 16, 32)]
    prefill = [case("prefill", context, PREFILL) for context in (8, 16, 32)]
    serve = case("serve", 100, SERVE)
    assert family([(one, "") for one in (*ladder, *prefill, serve)], "stack") == 2 + 6 + 2
    modes = [(one, mode) for one in ladder for mode in ("eager", "graph")]
    assert family(modes, "stack") == 6 + 2
    assert family([(serve, "")], "stack") == 2
    assert family([(serve, "")], "topk") == 1
