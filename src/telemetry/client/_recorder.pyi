"""The compiled recorder; see `native/` for its source and docs/RING.md for the format of its memory."""

from collections.abc import Callable, Sequence
from typing import Any, final

from telemetry.client.recorders import Add, Record

SOURCE_CRC: int
"""CRC-32 of the sources, one after another in the order of their names."""

@final
class Tally:
    """A count in the ring, of events that are dropped for one reason; as `telemetry.client.signal_safe.Tally`."""

    def hit(self) -> None: ...
    def hit_many(self, times: int, /) -> None: ...
    def take(self) -> int: ...
    @property
    def total(self) -> int: ...

class Ring:
    """A ring of rows and records. One thread takes rows; any may record."""

    def record(self, row_id: float, /) -> Record:
        """Return a recorder for a row id."""

    def add(self, row_id: float, /) -> Add:
        """Return a recorder for a row id whose value defaults to 1."""

    def put(self, rows: Sequence[float], /) -> None:
        """Record rows of plain numbers, together. They go where recorded values go."""

    def extend(self, rows: Sequence[float], /) -> None:
        """Put rows into the ring, whatever is installed, and beyond the bound while there is memory."""

    def install(
        self,
        target: Callable[[Sequence[float]], object] | None,
        on_full: Callable[[Sequence[float]], object] | None = None,
        /,
    ) -> None:
        """Choose what becomes of rows: the ring's own `extend` puts them into the ring; None discards them.

        Rows without room go to `on_full`; without one they are dropped and counted.
        """

    @property
    def waiting(self) -> int:
        """Number of rows that no batch has taken."""

    @property
    def capacity(self) -> int:
        """Slots in use. 0 without memory."""

    @property
    def is_file(self) -> bool:
        """True if the memory outlives the process."""

    def hold(self, most: int, /) -> None:
        """Refuse rows from now on while so many wait."""

    def take(self, most: int, /) -> tuple[bytes, int]:
        """Take the oldest rows, and return them as a msgpack array, and their number."""

    def drop(self, count: int, /) -> None:
        """Give up the oldest rows."""

    def rows(self) -> list[float]:
        """Return the waiting rows, flat."""

    def keep(self, records: Sequence[bytes], extend: Callable[[Sequence[bytes]], object], /) -> None:
        """Keep encoded records, and hand them to `extend`, in the same order for all threads."""

    def records_gone(self, records: Sequence[bytes], /) -> None:
        """Note that these records, the oldest, are in a batch or were given up."""

    def note_batch(self, seq: int, first: int, monotonic_ns: int, wall_ns: int, /) -> None:
        """Note that a batch has all rows and records that were taken so far."""

    def acknowledged(self, batches: int, /) -> None:
        """Note that all batches below this number have arrived: their rows may be overwritten."""

    def next_request(self) -> int:
        """Return the number of a request that has ended and belongs in the request log, from 0 up."""

    def requests_logged(self, requests: int, /) -> None:
        """Note that so many more of these requests are in a record, or counted as left out in one."""

    def tally(self, reason: int, /) -> Tally:
        """Return the count of a reason, by its index in the header."""

    def open(self, path: str, producer: str, bound: int, pid_started: int, wall_ns: int, /) -> None:
        """Take new memory: a new file, or private memory if `path` is empty. Raise OSError.

        Waiting rows are forgotten.
        """

    def release(self) -> None:
        """Give the memory back. The file stays."""

class FamilyBase:
    """The part of a family of requests that is read when a request begins or ends."""

    ids: Any
    limits: Any
    log: Any
    open: dict[Any, Any]
    ring: object

@final
class EndedRequest:
    """A request that has ended, on its way to the request log."""

    @property
    def family(self) -> Any: ...
    def encode(self, label: Callable[[str], str], /) -> bytes:
        """Return its entry of the log. `label` masks a text."""

def request_type(base: type, /) -> Any:
    """Return the type of requests whose rare methods are those of `base`. The garbage collector ignores them."""

def hold_chunks(most: int, /) -> int:
    """Set the number of chunks that a request holds before it records them. Return the number before."""
