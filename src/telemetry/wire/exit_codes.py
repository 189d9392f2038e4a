"""Exit codes. Scripts rely on them: a number never changes its meaning."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry.wire.snapshot import Completeness


class Exit(IntEnum):
    OK = 0
    ERROR = 1
    USAGE = 2
    INCONCLUSIVE = 3
    """A gate is inconclusive, or a comparison with `--fail-on worse`, or `telemetry ab` can't tell."""
    INCOMPLETE = 4
    """The result is lossy or incomplete, with `--strict`."""
    INTERRUPTED = 5
    """The run was interrupted, with `--strict`."""
    BACKEND_FAILED = 6
    """A feed failed or received nothing, a backend or the root lacks data; of `run` and `serve` with `--strict`."""
    GATE_FAILED = 99
    """A gate failed, or a comparison with `--fail-on worse` or `telemetry ab` found something worse."""
    SIGINT = 130
    SIGPIPE = 141


def strictly(completeness: Completeness, *, backend_failed: bool = False) -> Exit:
    """Return the exit code of a result with `--strict`."""
    if completeness == "interrupted":
        return Exit.INTERRUPTED
    if completeness != "complete":
        return Exit.INCOMPLETE
    return Exit.BACKEND_FAILED if backend_failed else Exit.OK
