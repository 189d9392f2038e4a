"""Tests of which parameters describe code, machine and software."""

from __future__ import annotations

import pytest

from telemetry.wire.collectors import is_of_surroundings


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("git.commit", True),
        ("machine.cpu", True),
        ("machine.host (n0)", True),
        ("python.version", True),
        ("packages.torch", True),
        ("env.OMP_NUM_THREADS", True),
        ("env.name", False),
        ("env.OMP_x", False),
        ("git", False),
        ("packages.", False),
        ("lr", False),
        ("my.git.commit", False),
    ],
)
def test_the_names_of_the_collectors(name: str, expected: bool) -> None:
    """A user's own parameter, such as the name of an environment for learning, is none of them."""
    assert is_of_surroundings(name) is expected
