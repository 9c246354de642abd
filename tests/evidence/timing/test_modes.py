from dataclasses import replace

import numpy as np
import pytest

from pipeline.evidence.figures.headline import headline
from pipeline.evidence.summary import ArmSummary, CaseSummary, Check, Comparison, FastPath
from pipeline.evidence.timing.modes import Mode, Trial, changed_winners, in_modes, modes
from pipeline.results.folder.record import read_summary
from pipeline.results.table import tables
from pipeline.run import run
from pipeline.work.workload import Case, Request
from tests.compose import config

EAGER, GRAPH = Mode(False, False).text, Mode(True, False).text


def asked(graph: str, l2: str):
    made = config("+exp=short_ctx", "model=tiny", "engine.device=cpu", f"measure.l2={l2}")
    return replace(made, engine=replace(made.engine, graph=graph))


@pytest.mark.parametrize(
    ("graph", "l2", "expected"),
    [
        ("off", "warm", ["eager, warm L2"]),
        ("full", "cold", ["graph, cold L2"]),
        ("both", "warm", ["eager, warm L2", "graph, warm L2"]),
        ("both", "both", ["eager, warm L2", "eager, cold L2", "graph, warm L2", "graph, cold L2"]),
    ],
)
def test_modes_are_the_product_of_what_is_asked(graph, l2, expected):
    made = asked(graph, l2)
    assert [mode.text for mode in modes(made)] == expected
    for mode in modes(made):
        single = mode.of(made)
        assert modes(single) == [mode]
        assert (single.model, single.arms, single.measure.rounds) == (made.model, made.arms, made.measure.rounds)


def test_a_case_is_named_by_its_mode_only_where_there_are_several():
    decode = (Request(0.0, 8, 9, 3),)
    cases = [Case("decode-15", "decode", 15, decode, "a"), Case("decode-20", "decode", 20, decode, "b")]
    alone = asked("full", "warm")
    assert list(in_modes(cases, alone)) == [Trial(case, alone) for case in cases]
    found = list(in_modes(cases, asked("both", "cold")))
    assert [trial.case.name for trial in found] == [
        "decode-15.eager-cold", "decode-15.graph-cold", "decode-20.eager-cold", "decode-20.graph-cold",
    ]  # fmt: skip
    assert [(trial.config.engine.graph, trial.config.measure.l2) for trial in found] == [
        ("off", "cold"),
        ("full", "cold"),
    ] * 2
    assert [trial.mode for trial in found] == ["eager, cold L2", "graph, cold L2"] * 2
    assert {(trial.case.workload, trial.case.context, trial.case.digest) for trial in found} == {
        ("decode", 15, "a"),
        ("decode", 20, "b"),
    }


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ((Request(0.0, 0, 9, 1),), ["eager, warm L2"]),  # a prompt
        ((Request(0.0, 0, 9, 3),), ["eager, warm L2", "graph, warm L2"]),  # and then decode steps
        ((Request(0.0, 8, 9, 1), Request(0.0, 3, 9, 1)), ["eager, warm L2"]),  # one that decodes beside a prompt
    ],
)
def test_what_cannot_be_replayed_has_no_graph_mode(requests, expected):
    mine = Case("mine-9", "mine", 9, requests, "a")
    found = list(in_modes([mine], asked("both", "warm")))
    assert [trial.mode for trial in found] == expected
    assert [trial.config.engine.graph for trial in found] == ["off", "full"][: len(expected)]
    assert [trial.case.name for trial in found] == ["mine-9.eager-warm", "mine-9.graph-warm"][: len(expected)]


def test_a_prompt_is_launched_in_every_cache_mode_and_not_called_a_graph():
    prompt = Case("mine-9", "mine", 9, (Request(0.0, 0, 9, 1),), "a")
    found = list(in_modes([prompt], asked("full", "both")))
    assert [(trial.mode, trial.config.engine.graph) for trial in found] == [
        ("eager, warm L2", "off"),
        ("eager, cold L2", "off"),
    ]
    only = asked("full", "warm")
    assert list(in_modes([prompt], only)) == [Trial(prompt, only)], "the only mode stays"


def test_a_stage_alone_is_a_graph_whatever_the_step():
    made = asked("both", "warm")
    made = replace(made, measure=replace(made.measure, scope="attend"))
    prompt = Case("mine-9", "mine", 9, (Request(0.0, 0, 9, 1),), "a")
    assert [trial.mode for trial in in_modes([prompt], made)] == ["eager, warm L2", "graph, warm L2"]


def case(mode: str, context: int = 15, **arms: tuple[str, float]) -> CaseSummary:
    """Verdict and ratio of each arm; intervals are one percent wide."""
    path, check = FastPath(0, 0, 0, 0, False), Check(True, 0.0, 1e-3, "")
    told = {
        name: Comparison("tpot", ratio, ratio - 0.005, ratio + 0.005, verdict, 0.001, 0.02, 0.95, 20)
        for name, (verdict, ratio) in arms.items()
    }
    held = {name: ArmSummary(name, check, {}, {}, path, {"tpot": found}) for name, found in told.items()}
    held = {"never": ArmSummary("never", check, {}, {}, path, {}), **held}
    return CaseSummary(f"decode-{context}", "decode", context, "d", "stack", "tpot", held, 1, 1, 20, 1, mode)


def changes(*cases: CaseSummary) -> list[str]:
    return changed_winners(cases, "never", "control")


def test_a_winner_that_changes_is_told_with_both_sides():
    found = changes(
        case(EAGER, batch=("FASTER", 0.9), row=("SAME", 1.0)), case(GRAPH, batch=("SAME", 1.0), row=("FASTER", 0.95))
    )
    assert found == [
        "the winner CHANGES with the way of timing in decode at 15: batch (eager, warm L2), row (graph, warm L2)"
    ]


@pytest.mark.parametrize("verdict", [("SAME", 1.0), ("SLOWER", 1.1)])
def test_a_gain_that_a_mode_does_not_have_is_a_change(verdict):
    """the gain of one mode is no gain of the other"""
    [clause] = changes(case(EAGER, batch=("FASTER", 0.9)), case(GRAPH, batch=verdict))
    assert "batch (eager, warm L2), never (graph, warm L2)" in clause


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("FASTER", 0.9), ("FASTER", 0.8)),
        (("FASTER", 0.9), ("UNDECIDED", 1.0)),
        (("SAME", 1.0), ("SLOWER", 1.1)),
        (("SLOWER", 1.1), ("UNDECIDED", 1.0)),
    ],
)
def test_nothing_is_told_where_the_winner_stays_or_is_not_known(one, other):
    assert changes(case(EAGER, batch=one), case(GRAPH, batch=other)) == []


def test_two_arms_that_cannot_be_told_apart_do_not_take_the_win_from_each_other():
    close = [
        case(EAGER, batch=("FASTER", 0.900), row=("FASTER", 0.902)),
        case(GRAPH, batch=("FASTER", 0.902), row=("FASTER", 0.900)),
    ]
    assert changes(*close) == []
    apart = case(GRAPH, batch=("FASTER", 0.95), row=("FASTER", 0.90))
    assert changes(case(EAGER, batch=("FASTER", 0.90), row=("FASTER", 0.95)), apart) != []


def test_contexts_are_compared_with_their_own_kind_and_the_control_never_wins():
    assert changes(case(EAGER, 15, batch=("FASTER", 0.9)), case(EAGER, 20, batch=("SLOWER", 1.1))) == []
    assert changes(case(EAGER, control=("FASTER", 0.9)), case(GRAPH, control=("SLOWER", 1.1))) == []


def test_it_is_the_first_thing_said():
    found = [case(EAGER, batch=("FASTER", 0.9)), case(GRAPH, batch=("SLOWER", 1.1))]
    first, *others = headline(found, "never", None)
    assert first.startswith("the winner CHANGES")
    assert "decode (TPOT, eager, warm L2): FASTER by 10.0 % at context 15" in others[0]
    assert "decode (TPOT, graph, warm L2): SLOWER by 10.0 % at context 15" in others[1]


def test_both_caches_leave_two_tables_and_no_file_twice(tmp_path):
    made = config(
        *("+exp=short_ctx", "model=tiny", "engine.device=cpu", "measure.rounds=2", "measure.warmup_rounds=0"),
        *("track.enabled=false", "~arms.row", "~arms.direct", "~workloads.prefill", "workloads.decode.boundary=null"),
        *("workloads.decode.ladder=[15,20]", "measure.l2=both", "measure.breakdown=false", f"output_dir={tmp_path}"),
    )
    outcome = run(made)
    found = read_summary(outcome.folder)
    names = ["decode-15.eager-warm", "decode-15.eager-cold", "decode-20.eager-warm", "decode-20.eager-cold"]
    assert [case.case for case in found.cases] == names
    assert [case.mode for case in found.cases] == ["eager, warm L2", "eager, cold L2"] * 2
    assert sorted(path.stem for path in (outcome.folder / "samples").iterdir()) == sorted(names)
    assert str(np.load(outcome.folder / "samples" / f"{names[1]}.npz")["mode"]) == "eager, cold L2"
    assert [table.title for table in tables(found, made)] == [
        "decode (eager, warm L2): TPOT ms",
        "decode (eager, cold L2): TPOT ms",
    ]
    plots = {path.stem for path in (outcome.folder / "plots").iterdir()}
    assert {"decode.eager-warm-tpot", "decode.eager-cold-tpot"} <= plots
