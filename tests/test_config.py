"""From composed YAML to Config, without the command line around it."""

import copy
import math
from functools import cache, reduce

import pytest
from hydra import compose, initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from kernels.layouts import SCALE_GROUP
from pipeline.door import rules
from pipeline.door.commandline import CONF
from pipeline.door.config import faults, from_yaml
from pipeline.fields import Fixed, WholePrompt
from pipeline.schema import Config, ConfigError


@pytest.fixture(scope="module")
def composed():
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("config", ["+exp=short_ctx", "model=tiny"])


def changed(composed, changes):
    found = copy.deepcopy(composed)
    for key, value in changes.items():
        OmegaConf.update(found, key, value, force_add=True)
    return found


def test_a_sound_config_becomes_dataclasses(composed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = from_yaml(composed)
    assert isinstance(found, Config)
    assert found.model.topk == 4 and found.model.yarn.factor == 16.0
    assert list(found.arms) == ["never", "batch", "row", "direct"]
    assert found.workloads["decode"].mix[0].cached_len == WholePrompt("all")
    assert found.workloads["prefill"].mix[0].cached_len == Fixed("fixed", 0)
    assert found.output_dir == str(tmp_path / "outputs") and found.track.uri is None


def test_reading_changes_nothing_in_what_was_read(composed):
    before = OmegaConf.to_yaml(composed)
    from_yaml(composed)
    assert OmegaConf.to_yaml(composed) == before


def test_interpolations_are_resolved(composed):
    found = from_yaml(changed(composed, {"name": "${model.name}_x", "model.topk": "${model.window}"}))
    assert (found.name, found.model.topk) == ("tiny_x", 8)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"workloads.decode.arrival": "${workloads.prefil.arrival}"}, "workloads.decode.arrival=${workloads.prefil"),
        ({"workloads.decode.mix": [{"output_len": "???"}]}, "workloads.decode.mix.0.output_len is not set (???)"),
        ({"model.yarn": None}, "model.yarn=null: must be a group with factor, original_length"),
        ({"workloads": {3: "${workloads.decode}"}}, "workloads: the key 3 is no name"),
        ({"workloads": {"a b": "${workloads.decode}"}}, "workloads.a b: the key 'a b' is no name"),
        ({"arms": {"x/y": "${arms.row}"}}, "arms.x/y: the key 'x/y' is no name"),
        ({"workloads.decode.mix": [3]}, "workloads.decode.mix.0=3: must be a group with output_len, prompt_len"),
        ({"arms.row.attend": "eager"}, "arms.row.attend='eager': text where a group of settings belongs"),
        ({"arms.row.attend._target_": None}, "arms.row.attend._target_=null: give a class as package.module.Class"),
        ({"output_dir": 3}, "output_dir=3: must be text that is not empty"),
        ({"output_dir": ""}, "output_dir='': must be text that is not empty"),
        ({"arms.row.streams": True}, "arms.row.streams=true: must be a whole number from 1 to 2"),
        ({"measure.confidence": 1.0}, "measure.confidence=1.0: must be a number from 0.5 to 0.9999"),
        (
            {"workloads.decode.num_requests": 70000},
            "workloads.decode.num_requests=70000: must be a whole number from 1 to 65536",
        ),
        ({"model.topk": 4.0}, "model.topk=4.0: must be a whole number from 1 to 1048576"),
        (
            {"workloads.decode.mix": [{"output_len": 1, "cached_len": "al"}]},
            "cached_len='al': must be a whole number",
        ),
    ],
)
def test_a_fault_is_one_line(composed, changes, told):
    (line,) = faults(changed(composed, changes))
    assert told in line


def test_an_error_holds_all_lines_each_once_and_unbroken():
    error = ConfigError(["one\nbroken", "two", "two"])
    assert error.lines == ["one broken", "two"] and str(error) == "one broken\ntwo"


def test_sections_are_judged_by_themselves(composed):
    """A part with a fault of its own does not hide what rules say about the others."""
    bad = changed(
        composed,
        {
            "model.heads": 0,
            "workloads.decode.ladder": [5, 5],
            "workloads.prefill.num_requests": -1,
            "arms.control": "${arms.row}",
        },
    )
    assert [line.split(":")[0] for line in faults(bad)] == [
        "model.heads=0",
        "workloads.prefill.num_requests=-1",
        "workloads.decode.ladder=[5, 5]",
        "arms.control",
    ]


def test_rules_know_the_group_of_the_layout():
    assert rules.SCALE_GROUP == SCALE_GROUP


SOUND = ["+exp=mixed", "model=tiny", "+workload@workloads.serve=serve", "+workload@workloads.decode=decode_ladder"]
JUNK = ["x", "", -1, 0, 10**20, 1.5, math.nan, math.inf, None, [], [1], {}, {"a": 1}, True, "???", "${nope}"]


def places(node, path=()):
    """Where something stands, groups and items of lists included."""
    if path:
        yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


@cache
def sound_tree() -> dict:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return OmegaConf.to_container(compose("config", SOUND))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_stands_at_one_place_is_taken_or_told(data):
    tree = copy.deepcopy(sound_tree())
    path = data.draw(st.sampled_from(list(places(tree))))
    junk = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
    parent = reduce(lambda node, key: node[key], path[:-1], tree)
    parent[path[-1]] = junk
    lines = list(faults(OmegaConf.create(tree)))
    if lines:
        assert len(lines) <= (2 if junk == {"a": 1} else 1) and "\n" not in lines[0]
    else:
        assert isinstance(from_yaml(OmegaConf.create(tree)), Config)
