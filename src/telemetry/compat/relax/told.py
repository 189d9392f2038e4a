"""Messages to the user that appear once, and counts of what they are about."""

from __future__ import annotations

from typing import Final

from telemetry import limits
from telemetry.client import notice

_SAID: Final[set[str]] = set()


def say_once(key: str, line: str) -> None:
    """Write one line, unless a line with this key was written before."""
    if key not in _SAID and len(_SAID) < limits.WARNINGS_KEPT:
        _SAID.add(key)
        notice.warn(line)


def refuse(name: str, why: str) -> None:
    """Report once that the value of a name is not recorded."""
    say_once(f"value {name}", f"the value of {name!r} is not recorded: {why}. This warning appears once")
