"""Exit codes. They are a promise to scripts: a number never changes its meaning."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    ERROR = 1
    USAGE = 2
    INCONCLUSIVE = 3
    """A gate can't be decided."""
    INCOMPLETE = 4
    """Data is lossy or incomplete, with `--strict`."""
    INTERRUPTED = 5
    BACKEND_FAILED = 6
    """With `--strict`."""
    GATE_FAILED = 99
    SIGINT = 130
    SIGPIPE = 141
