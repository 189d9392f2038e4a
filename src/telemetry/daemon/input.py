"""Sources of a run's numbers: its producers, or the journal of an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from telemetry.wire.control import CannotResend, End, ExpectNodes, Hello, Watch
from telemetry.wire.snapshot import BackendStat


class DaemonInput(Protocol):
    """Interface of a source, live or replayed. For the service's thread only. Its methods never block."""

    @property
    def listens(self) -> bool:
        """True if waiting frames in the event socket wake the loop and are for `turn`."""
        ...

    @property
    def journal(self) -> Path:
        """Directory of the batches that made the numbers."""
        ...

    @property
    def torn_bytes(self) -> int:
        """Number of bytes at the end of the journal that were never applied."""
        ...

    @property
    def reaches_nodes(self) -> bool:
        """True if the leaves of the run can be asked for values."""
        ...

    def now_ns(self) -> int:
        """Return the time of the run's monotonic clock."""
        ...

    def due_s(self) -> float:
        """Return the time in seconds until the next turn is due, independent of the sockets."""
        ...

    def turn(self, *, readable: bool) -> None:
        """Read a bounded number of events, which may be held until more arrive.

        `readable` is True if the event socket has frames.
        """
        ...

    def catch_up(self) -> None:
        """Apply the events that have arrived, up to a bound."""
        ...

    def tick(self, now_ns: int) -> None:
        """Do the work of a tick, about ten times a second on the machine's clock."""
        ...

    def each_second(self) -> None: ...

    def begin_drain(self) -> int | None:
        """Begin the drain. Return its deadline on the clock of `now_ns`, or None if the source simply ends."""
        ...

    def drained(self) -> bool:
        """Return True if nothing is left to wait for, or the deadline has passed."""
        ...

    def close(self) -> None:
        """Close the books: the numbers stay unchanged from now on."""
        ...

    def obstacle(self) -> str:
        """Return why the journal can't give exact percentiles; empty if it can."""
        ...

    @property
    def delivered(self) -> bool:
        """True if the root of this run has everything, or never will, or there is none."""
        ...

    @property
    def needed(self) -> bool:
        """True while the root of this run may ask for values."""
        ...

    def conclude(self) -> None:
        """Add warnings about the root to the result."""
        ...

    def leave(self) -> None:
        """Release what the feed itself has opened."""
        ...


class Ingress(Protocol):
    """Interface for messages of producers that change the numbers."""

    def hello(self, hello: Hello) -> str:
        """Introduce a producer. Return why it is refused; empty if it is accepted."""
        ...

    def ping(self, producer: str) -> None: ...

    def end(self, end: End) -> str:
        """End a producer. Return why it is refused; empty if it is accepted."""
        ...

    def cannot_resend(self, message: CannotResend) -> None: ...

    def watch(self, watch: Watch) -> None:
        """Add a process to those that the run belongs to."""
        ...

    def expect_nodes(self, note: ExpectNodes) -> str:
        """Add nodes that belong to the run. Return why they are refused; empty if they are accepted."""
        ...

    def tell_backend(self, stat: BackendStat) -> None:
        """Note that the run has a backend, and whether its writer has ended."""
        ...
