"""Exit codes. They are a promise to scripts: a number never changes its meaning."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry.wire.snapshot import Completeness


class Exit(IntEnum):
    """6 is kept for backends."""

    OK = 0
    ERROR = 1
    USAGE = 2
    INCONCLUSIVE = 3
    """Of a gate, or of a comparison with `--fail-on worse`: nobody can tell."""
    INCOMPLETE = 4
    """Data is lossy or incomplete, with `--strict`."""
    INTERRUPTED = 5
    """With `--strict`."""
    GATE_FAILED = 99
    """Or a comparison with `--fail-on worse` found something worse."""
    SIGINT = 130
    SIGPIPE = 141


def strictly(completeness: Completeness) -> Exit:
    """The exit code of a result with `--strict`."""
    if completeness == "interrupted":
        return Exit.INTERRUPTED
    return Exit.OK if completeness == "complete" else Exit.INCOMPLETE
