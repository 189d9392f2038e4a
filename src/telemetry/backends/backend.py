"""The seam between a writer and a backend: what a backend is, and what it may say.

A backend is a class behind an entry point of the group `telemetry.backends`, or one of ours. It is made and called
by the main thread of a process of its own; nothing else runs there that it could stall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from telemetry.backends.items import Item
from telemetry.distribution import install_hint
from telemetry.errors import TelemetryError
from telemetry.formatting import number_of
from telemetry.wire.events import Scalar

GROUP = "telemetry.backends"


@dataclass(frozen=True)
class RunFacts:
    """What is known of the run before its first record."""

    run_id: str
    name: str
    started_ns: int
    """Wall clock."""
    directory: Path | None
    """The run directory, if it can be seen from here."""
    host: str = ""
    params: dict[str, Scalar] = field(default_factory=dict)
    """Those that were known when the writer began; each also comes as an item."""


class Backend(Protocol):
    """Calls come in this order: `__init__`, `open`, then `write` and `flush` any number of times, then `close`.
    Each has `limits.BACKEND_CALL_S` of time; then its process is ended, and another goes on.

    What a call raises, if it is not one of the exceptions below, is taken for something that may pass: the same
    items come again, a few times, then fewer at once, to find the one that can't be written. So does everything
    since the last `flush` that returned, when a `flush` raises. `open`, and `close` with `final`, are called again
    until they return. An OSError counts as `Unavailable`.

    Two attributes are optional. `left_out: dict[str, int]`: values that it had to leave out of items that it wrote,
    by reason, since it was made; they count as dropped. `say: Callable[[str], object]`: is set before `open`, and
    takes a line that the user should read.
    """

    Options: ClassVar[type[Struct]]
    """Settings by name, with types and defaults: `--to NAME:key=value,…`. Unknown ones never arrive here."""
    takes: ClassVar[tuple[type[Item], ...]]
    """Kinds of items it has a place for. Of the others their number is told to the user, once."""
    idempotent: ClassVar[bool]
    """An item that is written twice is there once. Else those that may be there twice are counted."""

    def __init__(self, options: Any, place: Path) -> None:
        """`place` is a directory of its own for files, which exists. Touches nothing; raises NotConfigured."""

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        """Begins, or goes on from `state`: what `state` said after the last `flush`, {} for a new run.

        What was written after that `flush` comes again: a backend that can, such as one with a file of its own,
        takes it back here. Raises NotConfigured, Unavailable.
        """

    def write(self, items: Sequence[Item]) -> None:
        """At most `limits.BACKEND_BATCH_ITEMS`, in order. Raises Unavailable, Refused."""

    def flush(self) -> None:
        """Returns once what was written outlives this process. Raises Unavailable."""

    def state(self) -> dict[str, Any]:
        """What `open` of the next process needs, as JSON can carry it."""

    def close(self, *, final: bool) -> None:
        """The last call. With `final` all of a run that is over was written; without, another process goes on."""

    def where(self) -> str:
        """Where a user finds the data: a path or an address. Empty before `open`."""


class NotConfigured(TelemetryError):
    """It can't begin, and never will as things are: a package is missing, an option is wrong, a key is refused."""


class Unavailable(Exception):
    """It may work later: the same items come again, for as long as there is time."""

    def __init__(self, why: str, after_s: float = 0.0) -> None:
        """`after_s`: not before that, up to `limits.BACKEND_ASKED_MOST_S`; 0: the writer decides."""
        super().__init__(why)
        self.after_s = after_s


class Refused(Exception):
    """These items will never be taken; the others of the call were written. Counted as dropped, by reason."""

    def __init__(self, reason: str, keys: Sequence[str]) -> None:
        """`reason` is a word such as `too_large`; `keys` are those of the items."""
        super().__init__(f"{number_of(len(keys), 'item')}: {reason}")
        self.reason = reason
        self.keys = frozenset(keys)


def missing(package: str, extra: str, error: ImportError | None = None) -> NotConfigured:
    """For a backend whose library is not installed. `error`: what its import raised, which may be for another
    reason."""
    if error is not None and not isinstance(error, ModuleNotFoundError):
        return NotConfigured(f"{package} can't be imported: {error}", hint=install_hint(extra))
    return NotConfigured(f"{package} is not installed", hint=install_hint(extra))
