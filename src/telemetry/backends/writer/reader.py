"""A thread that reads the run into a bounded queue."""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from telemetry import limits
from telemetry.backends.items import Histogram, Item, Live, Params, Reading, Step, Table, Text
from telemetry.backends.sources.source import MISSED, NOTHING, Position, Read, Source
from telemetry.errors import TelemetryError, error_text

_READ_MOST: Final = 100
_READ_S: Final = 0.5
_AGAIN_S: Final = 0.5
_SLICE_S: Final = 0.2  # signals are checked between two slices
_LEAVES_S: Final = 2.0


class RunReader:
    """A reader thread and its queue. The thread owns the source until `close`.

    All methods are for the writer's main thread; any thread may read `known`.
    """

    def __init__(
        self, source: Source, say: Callable[[str], object], *, patience_s: float = limits.RETURN_S
    ) -> None:
        """Prepare without reading. The reader gives up a source that fails for `patience_s`."""
        self.failure = ""
        """Reason why reading stopped before the end of the run."""
        self.left_out: Mapping[str, int] = NOTHING
        """Missing items up to the last result of `take`, by reason, since the source was opened."""
        self._source = source
        self._say = say
        self._patience_s = patience_s
        self._reads: deque[tuple[Read, int]] = deque()
        self._bytes = 0
        self._heaviest = limits.BACKEND_QUEUE_BYTES // 4
        """Bytes of the largest item in the last read, to bound the next read. Initially a guess."""
        self._tail = source.position
        self._tail_left_out: Mapping[str, int] = NOTHING
        self._over = False
        self._closed = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="telemetry-reader", daemon=True)

    @property
    def known(self) -> int:
        """Number after the newest known record."""
        return self._source.known

    @property
    def over(self) -> bool:
        """True if no more items will be returned: the run is over, or `failure` has the reason."""
        with self._change:
            return not self._reads and (self._over or bool(self.failure))

    @property
    def finishing(self) -> bool:
        """True once the last item of the run has been read."""
        return self._over

    def start(self) -> None:
        self._thread.start()

    def take(self, most: int, timeout_s: float) -> tuple[list[Read], Position]:
        """Return at most `most` waiting items, and the position after them.

        Waits up to `timeout_s` for the first.
        """
        with self._change:
            if not self._reads and timeout_s > 0.0:
                self._change.wait(timeout_s)
            taken: list[Read] = []
            while self._reads and len(taken) < most:
                read, size = self._reads.popleft()
                self._bytes -= size
                taken.append(read)
            self._change.notify_all()
            if taken and self._reads:
                self.left_out = taken[-1].left_out
                return taken, taken[-1].position
            if not self._reads:
                self.left_out = self._tail_left_out
            return taken, self._tail

    def close(self) -> None:
        """End the thread. A blocked thread is left running. May be called twice."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_LEAVES_S)

    # --- reader thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closed and not self._over and not self.failure:
                if self._room():
                    self._read()
        except Exception as error:  # noqa: BLE001 – root of a thread: the writer must learn of the error
            traceback.print_exc()
            self._fail(f"{error_text(error)}")
        finally:
            self._source.close()

    def _room(self) -> int:
        """Return how many items fit into the queue. Waits briefly if it is full."""
        with self._change:
            if self._full():
                self._change.wait(_SLICE_S)
            if self._full():
                return 0
            fitting = max(1, (limits.BACKEND_QUEUE_BYTES - self._bytes) // self._heaviest)
            return min(limits.BACKEND_QUEUE_ITEMS - len(self._reads), fitting)

    def _full(self) -> bool:
        return len(self._reads) >= limits.BACKEND_QUEUE_ITEMS or self._bytes >= limits.BACKEND_QUEUE_BYTES

    def _read(self) -> None:
        until_s = time.monotonic() + self._patience_s
        while not self._closed:
            try:
                reads = self._source.read(min(_READ_MOST, self._room() or 1), _READ_S)
                break
            except TelemetryError as error:
                if time.monotonic() > until_s:
                    self._fail(str(error))
                    return
                time.sleep(_AGAIN_S)
        else:
            return
        for note in self._source.notes():
            self._say(note)
        sizes = [weight(read.item) for read in reads]
        with self._change:
            self._reads.extend(zip(reads, sizes, strict=True))
            self._bytes += sum(sizes)
            self._heaviest = max(sizes, default=self._heaviest)
            self._tail = self._source.position
            missed = self._source.missed
            self._tail_left_out = {**self._source.left_out, **({MISSED: missed} if missed else {})}
            self._over = self._source.over
            self._change.notify_all()

    def _fail(self, why: str) -> None:
        with self._change:
            self.failure = why
            self._change.notify_all()


def weight(item: Item) -> int:
    """Estimate the memory of an item in bytes."""
    return 500 + _MORE.get(type(item), lambda _: 500)(item)


def _of_reading(item: Reading) -> int:
    cells = sum(len(series.cells) for series in item.series)
    return 1_500 * len(item.series) + 120 * cells + 300 * (len(item.counters) + len(item.gauges))


_MORE: Final[dict[type, Callable[[Any], int]]] = {
    Step: lambda item: 120 * len(item.values) + 500 * len(item.spread),
    Reading: _of_reading,
    Live: lambda item: 50_000 + 4_000 * len(item.snapshot.series),
    Table: lambda item: 80 * len(item.columns) * (1 + len(item.rows)),
    Text: lambda item: 4 * len(item.text),
    Histogram: lambda item: 60 * len(item.counts),
    Params: lambda item: 200 * len(item.values),
}
