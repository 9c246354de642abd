"""What is asked of a result on the command line: refused in one line each, or answered in the folder and exit code."""

import json
import shlex

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from pydantic import TypeAdapter

from pipeline import __main__ as door
from pipeline.door.commandline import CONF
from pipeline.door.questions import SETTINGS
from pipeline.evidence.answers.setting import setting
from pipeline.questions import Claim, Gate
from pipeline.results.folder.record import failed_arms, failure, read_summary
from pipeline.run import run
from pipeline.schema import ConfigError
from tests.compose import ON_GPU, config
from tests.evidence.answers.summaries import case, compared
from tests.test_conf import all_faults, assert_sound, options
from tests.test_door import SHORT, enter, matches, ran  # noqa: F401

TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,10,3\n"
BAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,12.0,3\n"
BENCHMARK = '{"mean_ttft_ms": 1e6, "mean_tpot_ms": 1e6}'
GAUGE = "projection.benchmark=bench.json"
BAD_INPUT = [
    (["gate.max_regression=1"], ("gate.max_regression=1:", "from 0 and below 1, such as 1% or 0.01, or null")),
    (["gate.max_regression=100%"], ("gate.max_regression='100%':", "such as 1%")),
    (["gate.max_regression=-1%"], ("gate.max_regression='-1%':", "such as 1%")),
    (["gate.max_regression=1_0%"], ("gate.max_regression='1_0%':", "such as 1%")),
    (["gate.max_regression=nan"], ("gate.max_regression=nan:", "such as 1%")),
    (["gate.require=slower"], ("gate.require='slower'", "faster, or null")),
    (["gate.undecided=maybe"], ("gate.undecided='maybe'", "fail or pass")),
    (["+exp=kinds", "gate.require=faster"], ("gate: there is only one arm, never", "+variant@arms.NAME=OPTION")),
    (["claim=pr_4948"], ("claim=pr_4948", "did you mean pr_49486?")),
    (
        ["claim=pr_51967"],
        ("claim=pr_51967: compares constexpr with runtime", "here is never", "+exp=global_topk_gpu"),
    ),
    (["claim=pr_49486", "claim.figures.0.delta=-3.4"], ("claim.figures.0.delta=-3.4", "above -1 and below 100")),
    (["claim=pr_49486", "claim.figures.0.contexts=[9,3]"], ("claim.figures.0.contexts=[9, 3]", "at most the last")),
    (["claim=pr_49486", "claim.figures.0.scope=attnd"], ("claim.figures.0.scope='attnd'", "model, or stack, ingest")),
    (
        ["claim=pr_49486", "claim.figures.0.must={tokn:'512'}"],
        ("claim.figures.0.must.tokn='512': there is no such setting", "did you mean tokens?", "page_entries"),
    ),
    (["claim=null"], ("claim=null: to ask nothing leave it out", "~claim")),
    (["traffic=null"], ("traffic=null: to ask nothing leave it out", "~traffic")),
    (["claim=pr_49486", "claim.figures.0.metrc=x"], ("claim.figures.0.metrc='x'", "did you mean metric?")),
    (["traffic=azure"], ("traffic=azure: there is no traffic", "azure_2023_conv")),
    (["traffic.mine.source=x"], ("traffic.mine has no lengths", "traffic.mine.trace=FILE")),
    (["traffic.mine.trace=''"], ("traffic.mine.trace='': names no file",)),
    (["projection.benchmark=''", "projection.layers.csa=21"], ("projection.benchmark='': names no file",)),
    (["traffic.mine.trace=gone.csv"], ("traffic.mine.trace=gone.csv", "cannot be read")),
    (["traffic.mine.trace=bad.csv"], ("traffic.mine.trace=bad.csv", "bad.csv, line 2, ContextTokens='12.0'")),
    (
        ["traffic=azure_2023_conv", "traffic.azure_2023_conv.trace=good.csv"],
        ("traffic.azure_2023_conv.trace=good.csv", "prompts, decodes are given as well"),
    ),
    (
        ["traffic.mine.prompts=[{up_to:9,share:1.0},{up_to:9,share:2.0}]"],
        ("traffic.mine.prompts.1.up_to=9", "above that of the bin before, 9"),
    ),
    (["traffic.mine.prompts=[{up_to:9,share:0.0}]"], ("traffic.mine.prompts.0.share=0.0", "above 0")),
    ([GAUGE], ("projection.layers is missing", "swa, csa, hca")),
    ([GAUGE, "projection.layers.csx=3"], ("projection.layers.csx=3: unknown key", "mean csa?", "csa, hca, swa")),
    ([GAUGE, "projection.layers={}"], ("projection.layers={}", "a group with one or more of swa, csa, hca")),
    ([GAUGE, "projection.layers.hca=20"], ("projection.layers={'hca': 20}", "engine.layers=csa")),
    ([GAUGE, "projection.layers.csa=21", "engine.layers=4"], ("projection.layers={'csa': 21}", "engine.layers=4")),
    (["projection.benchmark=bad.csv", "projection.layers.csa=21"], ("projection.benchmark=bad.csv", "as JSON")),
    (["projection.benchmark=old.json", "projection.layers.csa=21"], ("old.json: has no mean_tpot_ms", "vllm bench")),
]


@pytest.fixture
def files(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "good.csv": TRACE, "bad.csv": BAD, "bench.json": BENCHMARK, "old.json": '{"mean_ttft_ms": 1}',
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(("arguments", "told"), BAD_INPUT, ids=[" ".join(arguments) for arguments, _ in BAD_INPUT])
def test_a_question_that_cannot_be_answered_is_one_line(ran, files, monkeypatch, capsys, arguments, told):  # noqa: F811
    monkeypatch.chdir(files)
    first = [] if arguments[0].startswith("+exp") else [SHORT]
    assert enter(monkeypatch, *first, "engine.device=cpu", *arguments) == door.BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert matches(line, told), line
    assert ran == []


def test_questions_reach_the_run_with_absolute_paths(ran, files, monkeypatch):  # noqa: F811
    monkeypatch.chdir(files)
    asked = ["gate.max_regression=1%", "gate.require=faster", "traffic=[azure_2023_conv,azure_2023_code]"]
    asked += ["traffic.mine.trace=good.csv", "claim=pr_49486", GAUGE, "projection.layers={csa:21,hca:20}"]
    assert enter(monkeypatch, SHORT, *asked) == door.DONE
    (found,) = ran
    assert found.gate == Gate(0.01, "faster", "fail")
    assert list(found.traffic) == ["azure_2023_conv", "azure_2023_code", "mine"]
    assert found.traffic["mine"].trace == str(files / "good.csv")
    assert found.claim.name == "pr_49486" and found.claim.figures[0].delta == -0.034
    assert (found.projection.benchmark, found.projection.layers) == (str(files / "bench.json"), {"csa": 21, "hca": 20})
    assert enter(monkeypatch, "+exp=mixed") == door.DONE
    assert (ran[1].claim, ran[1].traffic, ran[1].projection, ran[1].gate) == (None, {}, None, Gate(None, None, "fail"))


def test_the_settings_that_a_figure_may_demand_are_those_of_a_case():
    found = setting(config(SHORT, "engine.device=cpu"), case(1024, compared(0.9)), "csa", None)
    assert tuple(found) == SETTINGS


@pytest.mark.parametrize("name", options("claim"))
def test_a_claim_says_which_experiments_can_test_it(name):
    """And they can: its commands are sound, and some figure is of what they time."""
    text = (CONF / "claim" / f"{name}.yaml").read_text()
    commands = [shlex.split(line)[4:] for line in text.splitlines() if line.startswith("# python -m pipeline ")]
    asked = [word.removeprefix("+exp=") for overrides in commands for word in overrides if word.startswith("+exp=")]
    for overrides in commands:
        assert f"claim={name}" in overrides
        (experiment,) = [word.removeprefix("+exp=") for word in overrides if word.startswith("+exp=")]
        assert_sound(experiment, all_faults(overrides))
    if not ON_GPU & set(asked):
        assert config(*commands[0]).claim.experiments == asked


@pytest.mark.parametrize("name", options("claim"))
def test_the_published_times_of_a_figure_give_its_change(name):
    read = OmegaConf.to_container(OmegaConf.load(CONF / "claim" / f"{name}.yaml"))
    for figure in TypeAdapter(Claim).validate_python(read).figures:
        if figure.published:
            assert figure.published.after / figure.published.before - 1 == pytest.approx(figure.delta, abs=6e-4)


@pytest.mark.parametrize("name", options("traffic"))
def test_every_traffic_is_sound(name):
    assert all_faults([SHORT, f"traffic={name}"]) == []


SMALL = (
    *("model=tiny", "engine.device=cpu", "measure.warmup_rounds=0", "track.enabled=false", "~arms.row", "~arms.direct"),
    *("workloads.decode.ladder=[15,40]", "workloads.decode.boundary=null", "workloads.prefill.ladder=[15,40]"),
)


@pytest.mark.parametrize(("undecided", "failed"), [("fail", True), ("pass", False)])
def test_a_gate_that_cannot_tell_fails_the_run_unless_told_to_pass(files, capsys, undecided, failed):
    """Two rounds never decide anything."""
    asked = ("gate.max_regression=1%", f"gate.undecided={undecided}", "measure.rounds=2")
    outcome = run(config(SHORT, *SMALL, *asked, f"output_dir={files}"))
    summary = read_summary(outcome.folder)
    assert outcome.failed is failed and failed_arms(summary) == ()
    assert summary.findings.gate.held is not failed
    status = json.loads((outcome.folder / "status.json").read_text())
    assert status["status"] == ("failed" if failed else "finished")
    if failed:
        assert status["reason"] == failure(summary) and "the gate is not held: 0 of 4 demands held" in status["reason"]
    assert f"{'NOT HELD' if failed else 'HELD'}: gate, 0 of 4 demands held" in capsys.readouterr().out


def test_every_question_is_answered_in_one_run(files):
    asked = ("claim=pr_49486", "++traffic.mine.trace=good.csv", f"++{GAUGE}", "++projection.layers.csa=21")
    outcome = run(config(SHORT, *SMALL, *asked, "measure.rounds=2", f"output_dir={files}"))
    found = read_summary(outcome.folder).findings
    assert not outcome.failed and found.gate is None
    assert (found.claim.claim, found.claim.verdict, found.claim.scope) == ("pr_49486", "NOT DECIDABLE HERE", "model")
    assert [(it.workload, it.arm) for it in found.applies] == [("decode", "batch"), ("prefill", "batch")]
    assert found.applies[0].fast_path == (15,)
    assert found.applies[0].measured == (15, 40)
    assert {it.case for it in found.projected} == {"decode-15", "decode-40", "prefill-15", "prefill-40"}


def test_files_that_go_while_it_runs_cost_nothing(files, monkeypatch):
    """They were read before the first step."""
    from pipeline import run as module

    asked = ("++traffic.mine.trace=good.csv", f"++{GAUGE}", "++projection.layers.csa=21", "measure.rounds=2")
    right = module.summarise

    def summarise(*given):
        (files / "good.csv").unlink(missing_ok=True)
        (files / "bench.json").unlink(missing_ok=True)
        return right(*given)

    monkeypatch.setattr(module, "summarise", summarise)
    outcome = run(config(SHORT, *SMALL, *asked, f"output_dir={files}"))
    found = read_summary(outcome.folder).findings
    assert not outcome.failed and len(found.projected) == 4 and found.broken == ()
    assert found.left_out == (
        "traffic mine over decode: none of its decode steps lies within 15 to 40",
        "traffic mine over prefill: none of its requests lies within 15 to 40",
    )


def test_a_section_that_breaks_leaves_the_summary_and_fails_the_run(files, monkeypatch):
    from pipeline.evidence import conclude

    def breaking(*_):
        raise ConfigError(["no luck"])

    monkeypatch.setattr(conclude, "judged", breaking)
    asked = ("claim=pr_49486", "gate.max_regression=99%", "measure.rounds=2")
    outcome = run(config(SHORT, *SMALL, *asked, f"output_dir={files}"))
    found = read_summary(outcome.folder)
    assert outcome.failed and found.cases and found.findings.claim is None and found.findings.gate
    assert found.findings.broken == ("claim: ConfigError: no luck",)
    assert "not made: claim: ConfigError: no luck" in (outcome.folder / "report.md").read_text()
    assert "claim: ConfigError: no luck" in json.loads((outcome.folder / "status.json").read_text())["reason"]


def test_what_fails_after_the_summary_leaves_it_and_never_ends_as_bad_input(files, monkeypatch):
    from pipeline import run as module

    def breaking(*_):
        raise ConfigError(["no luck"])

    monkeypatch.setattr(module, "write_report", breaking)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = compose("config", [SHORT, *SMALL, "measure.rounds=2", f"output_dir={files}"])
    assert door._run(composed, []) == door.FAILED
    (folder,) = (files / "short_ctx").iterdir()
    assert read_summary(folder).cases
    assert json.loads((folder / "status.json").read_text())["status"] == "failed"
