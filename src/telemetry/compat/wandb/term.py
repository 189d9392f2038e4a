"""Messages on the terminal."""

from __future__ import annotations

import sys
from typing import Final

_printed: Final[set[str]] = set()


def termlog(
    string: str = "", newline: bool = True, repeat: bool = True, prefix: bool = True, *, silent: bool = False
) -> None:
    """Write a message to stderr. With `repeat=False`, write it once only."""
    if silent or (not repeat and string in _printed):
        return
    _printed.add(string)
    if sys.stderr is not None:
        sys.stderr.write(("telemetry: " if prefix else "") + string + ("\n" if newline else ""))


def termwarn(string: str, newline: bool = True, repeat: bool = True, prefix: bool = True) -> None:
    """Write a warning to stderr."""
    termlog(f"WARNING {string}", newline, repeat, prefix)


def termerror(string: str, newline: bool = True, repeat: bool = True, prefix: bool = True) -> None:
    """Write an error to stderr."""
    termlog(f"ERROR {string}", newline, repeat, prefix)
