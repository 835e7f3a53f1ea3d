"""Everything here needs Java: the one that `understudy run` would take, even if another is first on the path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from understudy.environment import find_java


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session", autouse=True)
def _java() -> None:
    home = str(find_java().home)
    os.environ["JAVA_HOME"] = home
    os.environ["PATH"] = os.pathsep.join([str(Path(home) / "bin"), os.environ.get("PATH", os.defpath)])
