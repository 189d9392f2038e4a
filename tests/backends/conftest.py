"""A run that all tests of backends may export."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends import given


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder: they need the libraries of trackers."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.sdk)


@pytest.fixture(scope="session")
def given_run() -> Iterator[given.GivenRun]:
    """10,000 steps; a test that writes into it takes a `copy`."""
    folder = Path(tempfile.mkdtemp(prefix="t"))  # an ipc address ends at 107 bytes
    yield given.make(folder)
    shutil.rmtree(folder, ignore_errors=True)
