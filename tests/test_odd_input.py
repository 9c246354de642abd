"""Input that Hydra or a run would answer with a traceback: one line, exit code 2, and nothing written."""

import sys

import pytest
from hydra.core.hydra_config import HydraConfig

from pipeline import __main__ as door
from pipeline.schema import ConfigError
from pipeline.session import open_layer

SHORT = ("+exp=short_ctx", "model=tiny", "engine.device=cpu")
GATHERED = [f"variant@arms.{name}=gathered" for name in ("never", "batch", "row", "direct")]
NARROW = ["workloads.decode.ladder=[12]", "workloads.decode.boundary=null", "workloads.prefill.ladder=[12]"]


@pytest.fixture
def told(monkeypatch, capsys, tmp_path):
    """The lines of a command that is refused."""

    def entered(*arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["pipeline", *arguments])
        with pytest.raises(SystemExit) as ended:
            door.main()
        assert ended.value.code == 2 and not list(tmp_path.iterdir())
        return capsys.readouterr().err.splitlines()

    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    monkeypatch.chdir(tmp_path)
    return entered


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--resolve"], "--resolve: says how a config is shown; add --cfg=job"),
        (["--package=model"], "--package: says how a config is shown; add --cfg=job"),
        (["--cfg=job", "--package=modle"], "--package=modle: there is no such part; did you mean model?"),
        (["--config-name=other"], "--config-name=other: there is one config; choose an experiment with +exp=NAME"),
        (["-cp", "other"], "--config-path=other: the config is "),
        (["--experimental-rerun=old.pickle"], "--experimental-rerun=old.pickle: is not supported"),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else "",
)
def test_options_that_mean_nothing_here(told, options, says):
    [line] = told(*options, *SHORT)
    assert line.startswith(says)


@pytest.mark.parametrize("itself", ["zz_itself", "/exp/zz_itself"])
def test_an_experiment_that_includes_itself(told, tmp_path_factory, itself):
    folder = tmp_path_factory.mktemp("own")
    (folder / "exp").mkdir()
    (folder / "exp" / "zz_itself.yaml").write_text(
        f"# @package _global_\ndefaults: [{itself}, _self_]\nname: zz_itself\n"
    )
    assert told(f"--config-dir={folder}", "model=tiny", "+exp=zz_itself") == [
        "+exp=zz_itself: includes itself; look at the defaults of that file and of those it names"
    ]


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (["measure.scope=topk", *NARROW, *(f"~arms.{name}" for name in ("never", "row"))], "every arm skips it"),
        (["measure.scope=score", *NARROW, *(f"~arms.{name}" for name in ("never", "row"))], "every arm skips it"),
        (["measure.scope=gather", *GATHERED, "~workloads.prefill"], "every step decodes"),
        (["measure.scope=locate", *GATHERED, "~workloads.decode"], "every step has prompts"),
    ],
    ids=lambda it: it[0] if isinstance(it, list) else "",
)
def test_a_stage_that_no_arm_would_call(told, overrides, why):
    [line] = told(*SHORT, *overrides)
    assert line.startswith(f"{overrides[0]}: no arm calls this stage in any case: {why}")


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["model=tinny"], "model=tinny: there is no model 'tinny'; did you mean tiny?"),
        (["model=(1"], "model=(1: cannot be read"),
        (["modle.topk=3", "model=tiny"], "modle"),
        (["model=tiny", "model.topk=${nowhere}"], "model.topk=${nowhere}"),
    ],
    ids=repr,
)
def test_a_layer_by_hand_is_refused_in_the_same_words(overrides, says):
    with pytest.raises(ConfigError) as refused:
        open_layer("csa", None, *overrides)
    assert any(line.startswith(says) for line in refused.value.lines), refused.value.lines
    with pytest.raises(ConfigError, match="there is no variant 'rwo'; did you mean row"):
        open_layer("csa", None, "model=tiny", variant="rwo")
