"""Lines for the person."""

from __future__ import annotations

from collections.abc import Callable

from telemetry.client import notice


def test_a_warning_is_one_line_in_the_programs_own_log(said: Callable[[], list[str]]) -> None:
    """A warning is one line in the program's own log. The program's logging configuration decides where it goes."""
    notice.warn("the disk is on fire")
    assert said() == ["telemetry: the disk is on fire"]
