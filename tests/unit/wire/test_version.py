"""Versions: who may talk to whom."""

from __future__ import annotations

import pytest

from telemetry.wire.version import PROTOCOL, may_talk


@pytest.mark.parametrize("minor", [0, 1, 99])
def test_any_minor_of_our_major_is_understood(minor: int) -> None:
    """Minor versions only add what may be ignored."""
    assert may_talk((PROTOCOL[0], minor))


@pytest.mark.parametrize("major", [-1, 0, 2, 1 << 40])
def test_another_major_is_refused(major: int) -> None:
    """Another major version is refused, as nothing is guessed about an unknown protocol."""
    assert not may_talk((major, 0))
