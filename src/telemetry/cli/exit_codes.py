"""Exit codes. They are a promise to scripts: a number never changes its meaning."""

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
    """Of a gate, or of a comparison with `--fail-on worse`: nobody can tell."""
    INCOMPLETE = 4
    """Data is lossy or incomplete, with `--strict`."""
    INTERRUPTED = 5
    """With `--strict`."""
    BACKEND_FAILED = 6
    """A feed failed, or nothing came to it, or a backend has not got all there is; of `run` and `serve` with
    `--strict`."""
    GATE_FAILED = 99
    """Or a comparison with `--fail-on worse` found something worse."""
    SIGINT = 130
    SIGPIPE = 141


def strictly(completeness: Completeness, *, backend_failed: bool = False) -> Exit:
    """The exit code of a result with `--strict`."""
    if completeness == "interrupted":
        return Exit.INTERRUPTED
    if completeness != "complete":
        return Exit.INCOMPLETE
    return Exit.BACKEND_FAILED if backend_failed else Exit.OK
