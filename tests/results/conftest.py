import shutil

import pytest

from pipeline.results.track import prepare
from tests.results.cases import config


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """Made once: the first tables of a store take seconds."""
    outputs = tmp_path_factory.mktemp("store")
    prepare(config(str(outputs), name="unused"))
    return outputs / "mlflow.db"


@pytest.fixture
def outputs(tmp_path, empty_store):
    folder = tmp_path / "my outputs"
    folder.mkdir()
    shutil.copy(empty_store, folder / "mlflow.db")
    return folder
