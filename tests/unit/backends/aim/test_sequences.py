"""Tests of the values that tell a sequence's ends. Tests of what is written are in tests/backends/test_aim.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from telemetry.backends.aim.backend import AimPoint, Sequences, telling
from telemetry.backends.backend import NotConfigured

NAN = float("nan")


def points(*values: float, start: int = 0) -> list[AimPoint]:
    return [AimPoint(step, value, 0.0) for step, value in enumerate(values, start)]


def test_the_ends_of_a_sequence() -> None:
    """The first given, the newest step, the lowest and the highest value: each once, the first of them first."""
    given = points(3.0, 1.0, 5.0, 4.0)
    assert telling(given) == [given[0], given[3], given[1], given[2]]
    assert telling(given[:1]) == given[:1]
    assert telling(given[::-1]) == [given[3], given[1], given[2]]


def test_what_is_no_number_is_neither_lowest_nor_highest() -> None:
    """A NaN is neither lowest nor highest of a sequence, but may be its first or newest value."""
    given = points(NAN, 2.0, NAN, 1.0, NAN)
    assert telling(given) == [given[0], given[4], given[3], given[1]]
    assert telling(given[:1]) == given[:1]


def test_another_release_of_aim_is_named() -> None:
    """A release of Aim that lacks internal parts is refused, as none of these is promised.

    The error names the parts.
    """
    tracker = SimpleNamespace(_track=None, sequence_infos={})
    with pytest.raises(NotConfigured, match="lacks _init_sequence_info, _update_context_data"):
        Sequences(SimpleNamespace(_tracker=tracker))
