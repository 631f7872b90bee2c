"""One fake run for all tests of the report."""

from pathlib import Path

import pytest
from made_up_run import make_run


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "laptop")
