"""Messages for the person at the terminal. Start, end and trouble print one line each; recording prints nothing."""

from __future__ import annotations

import os
from typing import Final

from telemetry import limits

_reported: Final[set[str]] = set()
"""Keys of the lines that were written once. Bounded, because keys may have names of the program."""


def warn(line: str) -> None:
    """Write one line through logging: to stderr unless the program configured something else."""
    try:
        import logging
    except OSError:  # the process has no descriptor left to read a module with
        os.write(2, f"telemetry: {line}\n".encode(errors="replace"))
        return
    logging.getLogger("telemetry.client").warning("telemetry: %s", line)


def warn_once(key: str, line: str) -> None:
    """Write one line, unless a line with this key was written before in this process."""
    if key not in _reported and len(_reported) < limits.WARNINGS_KEPT:
        _reported.add(key)
        warn(line)
