"""Tests of the place where the Aim backend writes, before Aim is asked.

Tests of what it writes are in tests/backends/test_aim.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.backends.backend import NotConfigured
from telemetry.backends.choice import make, parse


def test_only_directories_are_repositories(tmp_path: Path) -> None:
    """Aim's server is none."""
    with pytest.raises(NotConfigured, match="is not a directory"):
        make(parse("aim:repo=aim://host:53800"), tmp_path)
    assert make(parse("aim:repo=/x"), tmp_path).where() == ""
