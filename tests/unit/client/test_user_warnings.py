"""Warnings for the user."""

from __future__ import annotations

from collections.abc import Callable

from telemetry.client import user_warnings


def test_a_warning_is_one_line_in_the_programs_own_log(said: Callable[[], list[str]]) -> None:
    """A warning is one line in the program's own log. The program's logging configuration decides where it goes."""
    user_warnings.warn("the disk is on fire")
    assert said() == ["telemetry: the disk is on fire"]
