"""The interface of a collector: calls and exceptions.

A collector is a class behind an entry point of the group `telemetry.collectors`, or a built-in one. All collectors
of a run share one process beside the command, a producer named `collectors`, and each has a thread of its own. So a
collector that is slow, fails or hangs delays neither the command nor another collector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from msgspec import Struct

from telemetry.errors import TelemetryError

if TYPE_CHECKING:
    from telemetry.client.run import Run

GROUP: Final = "telemetry.collectors"
ONCE_S: Final = 86_400.0
"""`interval_s` of a collector that has recorded all it knows. `sample` is called again at the end of the run."""


@dataclass(frozen=True)
class Target:
    """The command and the run that a collector observes."""

    pid: int = 0
    """Process of the command; 0 if the run has no command."""
    directory: Path | None = None
    """Run directory, if this machine has it."""
    name: str = ""
    """Name of the run."""
    collector: str = ""
    """Name of this collector among those of the run: `as` of `--collect`, else its kind."""
    working_directory: Path | None = None
    """Working directory of the command."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels for all figures of the collector.

    `node`: name of this node in a run on several machines. `collector`: the name that `as` gave it.
    Without them the figures of all nodes, or of two collectors of a kind, would be one gauge.
    """


class Collector(Protocol):
    """A collector. Calls have this order: `__init__`, any number of `sample`, then `close`; all in one thread.

    `sample` is called once at the start, then with a pause of `interval_s` between two calls, and once more at the
    end of the run. If it raises, the error is counted and reported once, and the next call comes after a longer
    pause. A call that takes longer than `interval_s` delays the next call; no second call begins beside it.
    """

    Options: ClassVar[type[Struct]]
    """Options by name, with types and defaults: `--collect NAME:key=value,…`. Others are rejected earlier."""
    interval_s: float
    """Pause between two samples in seconds; 0 for that of the setting `collect.interval_s`, which is 1 by default.

    May be set in `__init__`, and changed by `sample`.
    """

    def __init__(self, options: Any, target: Target) -> None:
        """Check the options and find what is observed.

        Raises NotAvailable if this machine does not have it, NotConfigured if an option or a package is wrong. Must
        not wait for a network: what may be slow belongs to `sample`.
        """

    def sample(self, run: Run) -> None:
        """Record the current figures with the ordinary calls of `run`, such as gauges, counters, marks and params.

        May raise anything: the error is counted and reported once, and the next call comes after a pause.
        """

    def close(self) -> None:
        """Release files and connections. This is the last call. It is left out if `sample` hangs at the end."""


class NotAvailable(Exception):
    """A thing to observe is not on this machine: there is no driver, no repository, no `/proc`.

    A collector that is on by default is then absent without a message. For a collector that the user asked for, the
    reason is shown.
    """

    def __init__(self, reason: str, hint: str = "") -> None:
        """Create the error. `reason`: what is missing. `hint`: what the user can do about it."""
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class NotConfigured(TelemetryError):
    """A permanent error at the start: an option is wrong, or a package is missing."""
