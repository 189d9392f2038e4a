"""Where a run's numbers come from: its producers now, or the journal of an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from telemetry.wire.control import CannotResend, End, Hello, Watch


class Feed(Protocol):
    """What differs between a live run and a replay. The service's thread only; nothing here blocks."""

    @property
    def listens(self) -> bool:
        """Frames that wait in the event socket wake the loop, and are for `turn`."""
        ...

    @property
    def journal(self) -> Path:
        """Where the batches lie that made the numbers."""
        ...

    @property
    def torn_bytes(self) -> int:
        """Bytes at its end that never were in the numbers."""
        ...

    def now_ns(self) -> int:
        """The run's monotonic clock."""
        ...

    def due_s(self) -> float:
        """When the next turn is due at the latest, whatever the sockets say."""
        ...

    def turn(self, *, readable: bool) -> None:
        """Reads a bounded number of events, which may be held until more come. `readable`: the event socket has
        some."""
        ...

    def catch_up(self) -> None:
        """Events that have come are in the numbers after this, up to a bound."""
        ...

    def tick(self, now_ns: int) -> None:
        """On the machine's clock, about ten times a second."""
        ...

    def each_second(self) -> None: ...

    def begin_drain(self) -> int | None:
        """Returns until when producers are waited for, on `now_ns`'s clock; None if it just ends."""
        ...

    def drained(self) -> bool:
        """Nothing more is to be waited for, or it is too late."""
        ...

    def close(self) -> None:
        """Closes the books: after this the numbers no longer change."""
        ...

    def obstacle(self) -> str:
        """Why the journal can't give exact percentiles; empty if it can."""
        ...


class Ingress(Protocol):
    """How producers' words get to the numbers."""

    def hello(self, hello: Hello) -> str:
        """Why the producer is refused; empty if it isn't."""
        ...

    def ping(self, producer: str) -> None: ...

    def end(self, end: End) -> str:
        """As `hello`."""
        ...

    def cannot_resend(self, message: CannotResend) -> None: ...

    def watch(self, watch: Watch) -> None:
        """The run belongs to one more process."""
        ...
