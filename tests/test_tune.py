"""The searches of conf/exp/tune_*.yaml: every job that Hydra's sweeper makes of one is sound."""

from itertools import product

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tests.compose import CONF
from tests.test_conf import all_faults, assert_sound

SEARCHES = sorted(path.stem for path in (CONF / "exp").glob("tune_*.yaml"))


def jobs(name: str) -> list[list[str]]:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        found = compose("config", [f"+exp={name}"], return_hydra_config=True)
    swept = OmegaConf.to_container(found.hydra.sweeper.params)
    choices = [[f"{key}={value}" for value in values.split(",")] for key, values in swept.items()]
    return [list(job) for job in product(*choices)]


@pytest.mark.parametrize("name", SEARCHES)
def test_every_job_is_sound_and_differs_from_the_others(name):
    made = jobs(name)
    assert len(made) >= 8 and len({tuple(job) for job in made}) == len(made)
    for job in (made[0], made[-1], *made[1:-1:7]):
        assert_sound(name, all_faults([f"+exp={name}", *job]))


def test_a_search_for_every_stage_that_was_tuned():
    stages = ("attend", "combine", "compress", "locate", "score", "topk")
    assert [f"tune_{stage}" for stage in stages] == SEARCHES
