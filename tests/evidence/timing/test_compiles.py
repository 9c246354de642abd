from types import SimpleNamespace

import pytest
from pytest import approx

from pipeline.evidence.timing.compiles import Compiling

BASE_STEP = 100e-6


def compiled(compiling: Compiling, arm: str, kernel: str, key: str, seconds: float, from_disk: bool = False) -> None:
    function = SimpleNamespace(__module__="kernels.select.locate", __qualname__=kernel)
    compiling.arm = arm
    times = SimpleNamespace(total=int(seconds * 1e6))
    compiling._on_compiled(
        src=SimpleNamespace(fn=function), metadata={"hash": key}, metadata_group={}, times=times, cache_hit=from_disk
    )


def case(name: str, **verdicts: str) -> SimpleNamespace:
    """A summary as far as it is looked at."""
    arms = {arm: SimpleNamespace(comparisons={"step": SimpleNamespace(verdict=it)}) for arm, it in verdicts.items()}
    arms["base"] = SimpleNamespace(comparisons={})
    return SimpleNamespace(case=name, primary="step", arms=arms)


@pytest.fixture
def compiling() -> Compiling:
    """base compiles for 1 s, mine for 3 s more, less for nothing."""
    made = Compiling(first_steps={"base": 2.0, "mine": 4.0, "less": 0.5})
    compiled(made, "base", "one", "a", 1.0)
    compiled(made, "mine", "one", "a2", 1.5)
    compiled(made, "mine", "one", "a3", 1.5)
    compiled(made, "mine", "two", "b", 1.0)
    return made


def break_even(compiling: Compiling, cases: list) -> dict[str, int | None]:
    return {each.arm: each.break_even_launches for each in compiling.found(cases, "base")}


def test_what_an_arm_compiled(compiling):
    base, mine, less = compiling.found([], "base")
    assert (mine.kernels, mine.variants, mine.seconds, mine.first_step, mine.from_disk) == (2, 3, 4.0, 4.0, 0)
    assert mine.by_kernel == {"select.locate.one": 2, "select.locate.two": 1}
    assert (base.kernels, base.variants, base.seconds) == (1, 1, 1.0)
    assert (less.kernels, less.variants, less.seconds, less.by_kernel) == (0, 0, 0.0, {})


def test_break_even_is_what_is_compiled_more_over_what_a_launch_saves(compiling):
    compiling._steps = {"a": {"base": BASE_STEP, "mine": BASE_STEP - 10e-6, "less": BASE_STEP}}
    told = break_even(compiling, [case("a", mine="FASTER", less="SAME")])
    assert told == {"base": None, "mine": approx(300_000, abs=1), "less": 0}


def test_a_difference_that_is_not_real_saves_nothing(compiling):
    compiling._steps = {name: {"base": BASE_STEP, "mine": BASE_STEP - 10e-6} for name in "ab"}
    assert break_even(compiling, [case("a", mine="SAME"), case("b", mine="UNDECIDED")])["mine"] is None
    assert break_even(compiling, [case("a", mine="FASTER"), case("b", mine="SAME")])["mine"] == approx(600_000, abs=1)


def test_a_slower_arm_never_pays(compiling):
    compiling._steps = {"a": {"base": BASE_STEP, "mine": BASE_STEP + 5e-6}}
    assert break_even(compiling, [case("a", mine="SLOWER")])["mine"] is None
    assert break_even(compiling, [])["mine"] is None


def test_a_gain_here_pays_for_a_loss_there(compiling):
    compiling._steps = {
        "a": {"base": BASE_STEP, "mine": BASE_STEP - 20e-6},
        "b": {"base": BASE_STEP, "mine": BASE_STEP + 5e-6},
    }
    assert break_even(compiling, [case("a", mine="FASTER"), case("b", mine="SLOWER")])["mine"] == approx(400_000, abs=1)


def test_the_edge_is_told_each_kernel_once(compiling):
    assert compiling.since_edge() == (
        "select.locate.one was compiled for base; select.locate.one was compiled for mine; "
        "select.locate.two was compiled for mine"
    )
    assert compiling.since_edge() == ""


def test_a_first_step_is_not_made_where_nothing_listens():
    compiling = Compiling()
    compiling.first_step(SimpleNamespace(name="mine"))
    assert compiling.first_steps == {}


@pytest.mark.parametrize(("arm", "other"), [("mine", "less"), ("base", None)])
def test_what_was_only_read_from_disk_has_no_known_price(compiling, arm, other):
    compiled(compiling, arm, "one", "a9", 0.01, from_disk=True)
    compiling._steps = {"a": {"base": BASE_STEP, "mine": BASE_STEP - 10e-6, "less": BASE_STEP}}
    told = {each.arm: each for each in compiling.found([case("a", mine="FASTER", less="SAME")], "base")}
    assert told[arm].from_disk == 1
    assert told["mine"].break_even_launches is None
    assert told["mine"].unknown == f"variants of {arm} were only read from disk"
    assert told["base"].unknown == "" and told["less"].break_even_launches == (0 if other else None)


def test_what_was_there_before_the_run_has_no_known_price(compiling):
    compiling._used["mine"]["earlier"] = None
    mine = compiling.found([], "base")[1]
    assert (mine.earlier, mine.break_even_launches) == (1, None)
    assert mine.unknown == "variants of mine were there before the run"
