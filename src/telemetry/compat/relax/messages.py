"""Messages to the user that appear once."""

from __future__ import annotations

from typing import Final

from telemetry import limits
from telemetry.client import notice

_reported: Final[set[str]] = set()


def warn_once(key: str, line: str) -> None:
    """Write one line, unless a line with this key was written before."""
    if key not in _reported and len(_reported) < limits.WARNINGS_KEPT:
        _reported.add(key)
        notice.warn(line)


def refuse(name: str, why: str) -> None:
    """Report once that the value of a name is not recorded."""
    warn_once(f"value {name}", f"the value of {name!r} is not recorded: {why}. This warning appears once")
