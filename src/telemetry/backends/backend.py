"""The interface between a writer and a backend: calls and exceptions.

A backend is a class behind an entry point of the group `telemetry.backends`, or a built-in one. It is created and
called by the main thread of its own process, so it can stall only itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from telemetry.backends.items import Item
from telemetry.common.distribution import install_hint
from telemetry.common.formatting import number_of
from telemetry.errors import TelemetryError
from telemetry.wire.events import Scalar


@dataclass(frozen=True)
class RunFacts:
    """Facts about the run, known before its first record."""

    run_id: str
    name: str
    started_ns: int
    """Wall-clock time of the run's start in nanoseconds."""
    directory: Path | None
    """The run directory, if this machine can read it."""
    host: str = ""
    params: dict[str, Scalar] = field(default_factory=dict)
    """Parameters known when the writer started; each also arrives as an item."""


class Backend(Protocol):
    """A backend. Calls have this order: `__init__`, `open`, any number of `write` and `flush`, then `close`.

    Each call has a timeout of `limits.BACKEND_CALL_S`. After it, the process is ended and a new one takes over.

    An exception counts as temporary, unless it is one of the exceptions below. The writer then retries the same
    items a few times, and after that in smaller batches to find the item that can't be written. If `flush` raises,
    the writer retries everything since the last `flush` that returned. `open`, and `close` with `final`, are
    retried until they return. An OSError counts as `Unavailable`.

    Four attributes are optional. `left_out: dict[str, int]` counts values, by reason, that the backend had to leave
    out of written items since it was created; they count as dropped. `trouble: str` says why the backend holds data
    back that it retries itself, as part of its state; empty if it does not. `say: Callable[[str], object]` is set
    before `open`, and prints a line for the user. `close_s: float` is the timeout of a `close` with `final`, in
    place of `limits.BACKEND_CALL_S`.
    """

    Options: ClassVar[type[Struct]]
    """Options by name, with types and defaults: `--to NAME:key=value,…`. Unknown options are rejected earlier."""
    takes: ClassVar[tuple[type[Item], ...]]
    """Kinds of items that the backend accepts. The report counts items of other kinds."""
    idempotent: ClassVar[bool]
    """True if writing an item twice stores it once. If False, items that come again after a crash are counted."""

    def __init__(self, options: Any, place: Path) -> None:
        """Store the options, without any I/O. `place` is an existing directory for files. Raises NotConfigured."""

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        """Begin, or continue from `state`: the result of `state()` after the last `flush`, {} for a new run.

        Items written after that `flush` are delivered again. A backend that can remove them does so here, for
        example one with its own file. Raises NotConfigured, Unavailable.
        """

    def write(self, items: Sequence[Item]) -> None:
        """Write at most `limits.BACKEND_BATCH_ITEMS` items, in order. Raises Unavailable, Refused."""

    def flush(self) -> None:
        """Return once all written items would survive the end of this process. Raises Unavailable."""

    def state(self) -> dict[str, Any]:
        """Return the data that `open` of the next process needs, as JSON types."""

    def close(self, *, final: bool) -> None:
        """End. This is the last call. `final`: the run is complete; otherwise another process continues."""

    def where(self) -> str:
        """Return where users find the data: a path or an address. Empty before `open`."""


class NotConfigured(TelemetryError):
    """A permanent error at the start: a package is missing, an option is wrong or a key is rejected."""


class Unavailable(Exception):
    """A temporary error. The writer retries the same items for as long as there is time."""

    def __init__(self, why: str, after_s: float = 0.0) -> None:
        """Create the error.

        `after_s`: minimum wait, capped at `limits.BACKEND_ASKED_MOST_S`; 0 for the writer's own wait.
        """
        super().__init__(why)
        self.after_s = after_s


class Refused(Exception):
    """A permanent rejection of some items. The other items of the call were written.

    Rejected items count as dropped, by reason.
    """

    def __init__(self, reason: str, keys: Sequence[str]) -> None:
        """Create the error. `reason`: a word such as `too_large`. `keys`: keys of the rejected items."""
        super().__init__(f"{number_of(len(keys), 'item')}: {reason}")
        self.reason = reason
        self.keys = frozenset(keys)


def missing(package: str, extra: str, error: ImportError | None = None) -> NotConfigured:
    """Return the error for a backend whose library is missing.

    `error`: the exception of its import, which may have another cause.
    """
    if error is not None and not isinstance(error, ModuleNotFoundError):
        return NotConfigured(f"can't import {package}: {error}", hint=install_hint(extra))
    return NotConfigured(f"{package} is not installed", hint=install_hint(extra))
