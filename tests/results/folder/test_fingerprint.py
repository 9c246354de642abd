from dataclasses import asdict, replace

from pipeline.results.folder.fingerprint import UNKNOWN_CHANGES, Difference, differences, digest, fingerprint, within
from tests.results.cases import config, provenance

CLEAN = replace(provenance(), git_dirty=False)


def parts(seen=CLEAN, **changes):
    return fingerprint(asdict(config(**changes)), seen)


def test_it_names_machine_software_code_and_configuration():
    found = parts()
    assert found["machine.gpu"] == "NVIDIA H200" and found["machine.driver"] == "580.159"
    assert found["machine.cores"] == "2" and found["software.torch"] == "2.13.0" and found["software.triton"] == "-"
    assert found["code.commit"].startswith("0123456") and found["code.changes"] == "-"
    assert found["engine.dtype"] == "bf16" and found["seed"] == "7" and found["measure.margin"] == "0.02"
    assert found["workloads.decode.ladder"] == "[1024, 2047, 2048, 2051, 2052, 4096, 8192]"
    assert found["arms.batch.select.topk._target_"] == "kernels.select.reference.TopK"


def test_a_field_that_came_later_is_no_part_where_it_says_what_was_so_before():
    old = asdict(config())
    for variant in (old["reference"], *old["arms"].values()):
        del variant["streams"]
    assert fingerprint(old, CLEAN) == parts() and not any("streams" in name for name in parts())
    two = asdict(config())
    two["arms"]["batch"]["streams"] = 2
    assert differences(parts(), fingerprint(two, CLEAN)) == [Difference("arms.batch.streams", "-", "2")]


def test_labels_place_and_time_are_no_part():
    other = replace(CLEAN, utc="2030-01-01T00:00:00+00:00", launch_directory="/other", command="x", overrides=("a=1",))
    assert parts() == parts(other, output_dir="elsewhere", name="another")


def test_what_differs_beyond_the_declared_change():
    one = parts()
    other = parts(replace(CLEAN, git_commit="f" * 40, python="3.12.1"), seed=8)
    commit = Difference("code.commit", one["code.commit"], "f" * 40)
    python, seed = Difference("software.python", "3.11.7", "3.12.1"), Difference("seed", "7", "8")
    assert differences(one, other) == [python, commit, seed]
    assert differences(one, other, ["code", "seed"]) == [python]
    assert differences(one, one) == []


def test_a_part_that_only_one_has_differs():
    one = parts()
    other = {name: value for name, value in one.items() if name != "measure.margin"} | {"measure.l3": "warm"}
    assert [(each.part, each.one, each.other) for each in differences(one, other)] == [
        ("measure.margin", "0.02", "-"),
        ("measure.l3", "-", "warm"),
    ]


def test_changes_that_nobody_recorded_are_never_known_to_be_the_same():
    unknown, known = (replace(provenance(), git_changes=changes) for changes in (None, "abc"))
    same = parts(unknown)
    assert differences(same, same) == [Difference("code.changes", UNKNOWN_CHANGES, UNKNOWN_CHANGES)]
    assert differences(parts(known), parts(known)) == []
    assert differences(same, same, ["code.changes"]) == []


def test_the_digest_is_equal_where_nothing_but_the_declared_change_differs():
    one, other = parts(), parts(seed=8)
    assert digest(one) == digest(dict(reversed(one.items()))) != digest(other)
    assert digest(one, ["seed"]) == digest(other, ["seed"]) != digest(one)


def test_a_name_holds_its_parts_and_no_others():
    assert within("machine.gpu", ["machine"]) and within("seed", ["seed"])
    assert not within("machines", ["machine"]) and not within("machine", ["machine.gpu"]) and not within("seed", [])
