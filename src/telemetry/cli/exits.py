"""Exit codes. They are a promise to scripts: a number never changes its meaning."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry.wire.snapshot import Completeness


class Exit(IntEnum):
    """3, 6 and 99 are kept for gates and backends."""

    OK = 0
    ERROR = 1
    USAGE = 2
    INCOMPLETE = 4
    """Data is lossy or incomplete, with `--strict`."""
    INTERRUPTED = 5
    """With `--strict`."""
    SIGINT = 130
    SIGPIPE = 141


def strictly(completeness: Completeness) -> Exit:
    """The exit code of a result with `--strict`."""
    if completeness == "interrupted":
        return Exit.INTERRUPTED
    return Exit.OK if completeness == "complete" else Exit.INCOMPLETE
