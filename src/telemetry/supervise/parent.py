"""The process that started a companion, which ends when that process is gone."""

from __future__ import annotations

import os
from typing import Final

PARENT_VARIABLE: Final = "TELEMETRY_PARENT_PID"


def parent_pid() -> int:
    """Return the id of the process that started this one. It may have ended since.

    A process that asks the system for it learns too late of a parent that was killed while it started.
    """
    text = os.environ.get(PARENT_VARIABLE, "")
    return int(text) if text.isdecimal() else os.getppid()
