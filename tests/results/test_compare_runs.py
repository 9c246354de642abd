import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from pipeline.evidence.summary import Summary
from pipeline.results.compare import main, pairs
from pipeline.results.folder.record import open_run, write_summary
from pipeline.results.folder.status import write_status
from tests.results.cases import config, provenance, summary

CLEAN = replace(provenance(), git_dirty=False)


def run(tmp_path, found: Summary | None = None, status: str = "finished", seen=CLEAN, **changes):
    made = open_run(config(**changes), replace(seen, launch_directory=str(tmp_path)))
    write_summary(made, found or summary())
    write_status(made.folder, status)
    return made.folder


def scaled(factor: float) -> Summary:
    """Every TPOT and TTFT so much longer, with intervals of 1 %."""

    def arm(held):
        metrics = {name: value * factor for name, value in held.metrics.items()}
        seconds = {name: metrics[f"mean_{name}_ms"] / 1e3 for name in ("ttft", "tpot") if f"mean_{name}_ms" in metrics}
        bounds = {name: (value * 0.99, value * 1.01) for name, value in seconds.items()}
        return replace(held, metrics=metrics, intervals=bounds)

    made = summary()
    cases = [replace(case, arms={name: arm(held) for name, held in case.arms.items()}) for case in made.cases]
    return replace(made, cases=tuple(cases))


def shown(*arguments) -> tuple[int, str]:
    console = Console(file=StringIO(), width=200)
    code = main([str(argument) for argument in arguments], console)
    return code, console.file.getvalue()


def test_the_list_of_differences_comes_before_any_ratio(tmp_path):
    one = run(tmp_path, scaled(1.0))
    other = run(tmp_path, scaled(1.25), seen=replace(CLEAN, cpu="another", git_commit="f" * 40), seed=8)
    code, text = shown(one, other, "--changed", "seed")
    assert code == 0
    lines = text.splitlines()
    assert lines[0].startswith(f"A  {one.name}") and lines[1].startswith(f"B  {other.name}")
    assert lines[2:4] == ["declared change: seed", "beyond it 2 parts differ, and a ratio may come from any:"]
    assert lines[4].split() == ["machine.cpu", "AMD", "EPYC", "->", "another"]
    assert lines[5].split() == ["code.commit", CLEAN.git_commit, "->", "f" * 40]
    assert lines[6].startswith("the machines differ")
    assert not any("decode-1024" in line for line in lines[:7]) and "seed  " not in text
    row = next(line for line in lines if "decode-1024" in line and "batch" in line)
    assert "1.250 [1.225, 1.275]" in row and row.count("0.900 FASTER") == 2


def test_runs_of_one_machine_and_stack_say_that_nothing_else_differs(tmp_path):
    code, text = shown(run(tmp_path), run(tmp_path, seed=8), "--changed", "seed")
    assert code == 0 and "nothing else differs in machine, software, code and configuration" in text
    first, second = (line.rpartition(" ")[2] for line in text.splitlines()[:2])
    assert first == second


def test_an_undeclared_change_is_listed(tmp_path):
    _, text = shown(run(tmp_path), run(tmp_path, seed=8))
    assert (
        "declared change: none" in text and "beyond it 1 part differs, and a ratio may come from any:\n  seed" in text
    )


def test_what_changes_no_time_and_an_arm_of_one_run_alone_get_a_line_each(tmp_path):
    whole = config()
    measure = replace(whole.measure, breakdown=not whole.measure.breakdown, margin=0.05)
    arms = {name: variant for name, variant in whole.arms.items() if name != "row.v2"}
    _, text = shown(run(tmp_path), run(tmp_path, measure=measure, arms=arms))
    assert "differ, and change no time: measure.breakdown, measure.margin\n" in text
    assert "beyond it 1 part differs" in text and "  arms.row.v2  an arm -> -\n" in text


def test_only_the_same_requests_are_compared():
    one = summary()
    first, second, *rest = one.cases
    first = replace(first, digest="another")
    second = replace(second, arms={name: arm for name, arm in second.arms.items() if name != "batch"})
    found, apart = pairs(one, replace(one, cases=(first, second, *rest[:-1])))
    assert first.case not in {pair.case for pair in found}
    assert f"{first.case}: the requests differ: digest-of-decode-1024 and another" in apart
    assert f"{second.case}: arm batch only in A" in apart
    assert f"{rest[-1].case}: only in A" in apart
    assert "decode-2052: arm row.v2 has no figures in one of them" in apart
    assert all(pair.ratio == 1 and pair.low is None for pair in found)


def test_a_run_whose_arm_failed_can_be_compared(tmp_path):
    assert shown(run(tmp_path, status="failed"), run(tmp_path))[0] == 0


def told(capsys, *arguments) -> str:
    code, text = shown(*arguments)
    line = capsys.readouterr().err
    assert code == 2 and text == "" and line.count("\n") == 1
    return line


def test_bad_folders_are_told_on_one_line(tmp_path, capsys):
    good, running, empty = run(tmp_path), run(tmp_path, status="running"), tmp_path / "empty"
    empty.mkdir()
    assert "no such folder" in told(capsys, good, tmp_path / "none")
    assert "the run is running; only a run that came to its end" in told(capsys, running, good)
    assert "not the folder of a run" in told(capsys, good, empty)
    assert "give two runs" in told(capsys, good, good)
    assert "usage: " in told(capsys, good) and "usage: " in told(capsys, good, good, "--what")
    assert "near: engine.dtype" in told(capsys, good, run(tmp_path), "--changed", "engine.dtyp")


@pytest.mark.parametrize("name", ["summary.json", "provenance.json", "config.yaml", "status.json"])
@pytest.mark.parametrize("text", ["", "[]", "{", '{"cases": 3}', "null"])
def test_broken_files_are_told_on_one_line(tmp_path, capsys, name, text):
    good, broken = run(tmp_path), run(tmp_path)
    (broken / name).write_text(text)
    assert "not the folder of a run that was summarised" in told(capsys, good, broken)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("config.yaml", "arms: null\n", "config.yaml names no arms"),
        ("config.yaml", "arms: {}\n", "config.yaml names no arms"),
        ("config.yaml", "arms: {a: {x: '${nope}'}}\n", "nope"),
    ],
)
def test_a_configuration_that_names_nothing_is_told(tmp_path, capsys, name, text, why):
    one, other = run(tmp_path), run(tmp_path)
    (other / name).write_text(text)
    assert why in told(capsys, one, other)


def test_a_run_without_a_case_is_told(tmp_path, capsys):
    other = run(tmp_path)
    (other / "summary.json").write_text(json.dumps(json.loads((other / "summary.json").read_text()) | {"cases": []}))
    assert "summary.json holds no case" in told(capsys, run(tmp_path), other)


def test_an_interval_that_holds_no_time_gives_no_bounds():
    made = summary()
    arms = {
        name: replace(held, intervals=dict.fromkeys(held.intervals, (0.0, 0.0)))
        for name, held in made.cases[0].arms.items()
    }
    found, _ = pairs(replace(made, cases=(replace(made.cases[0], arms=arms),)), made)
    assert found and all((pair.low, pair.high) == (None, None) for pair in found)
    assert all(pair.ratio == 1.0 for pair in found)


def test_an_interval_that_ends_below_its_start_is_told(tmp_path, capsys):
    broken = run(tmp_path, scaled(1.0))
    tree = json.loads((broken / "summary.json").read_text())
    tree["cases"][0]["arms"]["batch"]["intervals"]["tpot"][1] = 0.0
    (broken / "summary.json").write_text(json.dumps(tree))
    assert "arm batch: the interval of tpot ends at 0, below its start" in told(capsys, broken, run(tmp_path))


def test_a_configuration_of_an_older_version_is_compared_all_the_same(tmp_path):
    one, other = run(tmp_path), run(tmp_path)
    text = (one / "config.yaml").read_text()
    assert "compile_anew: false\n" in text
    (one / "config.yaml").write_text(text.replace("  compile_anew: false\n", ""))
    code, text = shown(one, other)
    assert code == 0 and "measure.compile_anew  - -> false" in text
    assert json.loads((one / "summary.json").read_text())
