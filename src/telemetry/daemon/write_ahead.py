"""Write-ahead log of a live run: every change of the numbers is in the journal before others can see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import StreamedRecord
from telemetry.common.clock import Clock
from telemetry.daemon.numbers import LATEST_NS, Numbers
from telemetry.store.journal import JournalWriter
from telemetry.wire.codec import encode_note
from telemetry.wire.control import CannotResend, End, ExpectNodes, Hello, TellBackend, Watch
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.history import Interval, Slice
from telemetry.wire.journal import BadFrames, Closed, Ending, Note, Rolled, Salvaging, Sliced
from telemetry.wire.request_log import LoggedRecords
from telemetry.wire.snapshot import BACKEND_ENDED, BackendStat


def no_room() -> str:
    """Return why a producer is refused when there are too many."""
    return f"the run already has {limits.PRODUCERS:,} producers that have not ended, and accepts no more"


def no_more_nodes() -> str:
    """Return why a leaf is refused when the run has too many nodes."""
    return f"the run already has {limits.NODES:,} nodes, and accepts no more; add a level of leaves between"


class WriteAheadLog:
    """Writer of all changes to the numbers. For the service's thread only.

    Without a journal, or with one that failed, the numbers are the same. Repeated messages of a peer are not
    written again, so that they don't fill the disk.
    """

    def __init__(self, numbers: Numbers, journal: JournalWriter | None, clock: Clock, last_ns: int = 0) -> None:
        """Prepare the log. `last_ns` is the newest stamp of the journal."""
        self._numbers = numbers
        self._aggregator = numbers.aggregator
        self._journal = journal
        self._clock = clock
        self._last_ns = last_ns
        self._hellos: Counter[str] = Counter()
        self._contradicted: set[str] = set()
        """Producers that sent a second `end` with other totals."""
        self.on_named: Callable[[str], object] = lambda name: None
        """Callback for the name that a producer gives to a run that was started without one."""

    def stamp(self) -> int:
        """Return the time now, but later than any earlier stamp, because stamps tell turns apart."""
        self._last_ns = max(self._clock.monotonic_ns(), self._last_ns + 1)
        return self._last_ns

    def renew(self, warnings: Sequence[str]) -> None:
        """Begin the next segment if the current one is full. Call it between turns.

        The values of a root stay on its nodes. So its older segments are deleted while it has no values of its own.
        """
        if self._journal is None or not self._journal.full:
            return
        self._numbers.run = replace(self._numbers.run, warnings=list(warnings))
        valueless = bool(self._aggregator.root.leaves()) and not self._aggregator.records_values
        if valueless:
            self._numbers.run = replace(self._numbers.run, valueless_segments=self._journal.next_segment)
        self._journal.begin(self._numbers.checkpoint(), self.stamp())
        if valueless:
            self._journal.forget()

    # --- changes of the numbers ------------------------------------------------------------------

    def turn(self, frames: Sequence[bytes]) -> list[StreamedRecord]:
        """Apply the frames of one turn. Returns as `take_streamed`."""
        now_ns = self.stamp()
        new = [(frame, batch) for frame in frames if (batch := self._numbers.admit(frame, now_ns)) is not None]
        if new:
            if self._journal is not None:
                self._journal.append([frame for frame, _ in new], now_ns)
            self._numbers.apply([batch for _, batch in new], now_ns)
        return self.take_streamed()

    def take_streamed(self) -> list[StreamedRecord]:
        """Return the stream records since the last call, from all changes made here."""
        return self._numbers.take_streamed()

    def take_logged(self) -> tuple[list[LoggedRecords], int]:
        """Return frames of the request log since the last call, and the number of the first."""
        logged = self._numbers.take_logged()
        return logged, self._numbers.run.requests - len(logged)

    def hello(self, hello: Hello) -> str:
        """Introduce a producer. Return why it is refused; empty if it is accepted."""
        now_ns = self.stamp()
        if self._is_introduced(hello, now_ns):
            self._aggregator.ping(hello.producer, now_ns)
            return ""
        taken = limits.NODE_HELLOS if hello.node else limits.HELLOS
        if self._hellos[hello.producer] >= taken:
            return f"more than {taken:,} different hellos of one producer"
        book = self._aggregator.book
        if hello.node and book.get(hello.producer) is None and len(book.leaves()) >= limits.NODES:
            self._aggregator.bad_frame(Reason.TOO_MANY_PRODUCERS)  # the result lacks the events of that node
            return no_more_nodes()
        named = self._numbers.is_named_by(hello)
        if not self._numbers.hello(hello, now_ns):
            return no_room()
        self._hellos[hello.producer] += 1
        if len(self._hellos) > 2 * limits.PRODUCERS:  # remove producers that have no row any more
            self._hellos = Counter({key: count for key, count in self._hellos.items() if book.get(key) is not None})
        self._note(hello, now_ns)
        if named:
            self.on_named(hello.name)
        return ""

    def ping(self, producer: str) -> None:
        """Register a ping of a producer. It changes no number."""
        self._aggregator.ping(producer, self._clock.monotonic_ns())

    def end(self, end: End) -> str:
        """Apply the end of a producer. Never refused."""
        now_ns = self.stamp()
        if not self._is_news(end):
            self._aggregator.ping(end.producer, now_ns)
            return ""
        self._numbers.take_note(end, now_ns)
        if (
            self._aggregator.book.get(end.producer) is not None
        ):  # otherwise there was no room for it, and it counts as a bad frame
            self._note(end, now_ns)
        return ""

    def cannot_resend(self, message: CannotResend) -> None:
        """Mark batches as lost for good. Ignores batches that are not missing."""
        gaps = self._aggregator.book.gaps(message.producer)
        if any(first <= message.last and message.first <= last for first, last in gaps):
            now_ns = self.stamp()
            self._note(message, now_ns)
            self._numbers.take_note(message, now_ns)

    def salvaging(self, producer: str) -> None:
        """Note that what follows of a producer was read from its ring."""
        if not self._aggregator.book[producer].is_salvaged:
            now_ns, note = self.stamp(), Salvaging(producer=producer)
            self._note(note, now_ns)
            self._numbers.take_note(note, now_ns)

    def watch(self, watch: Watch) -> None:
        """Add a process to those that the run belongs to."""
        watched = self._numbers.run.watched
        if watch.pid not in watched and len(watched) < limits.PROCESSES_WATCHED:
            now_ns = self.stamp()
            self._note(watch, now_ns)
            self._numbers.take_note(watch, now_ns)

    def expect_nodes(self, note: ExpectNodes) -> str:
        """Add nodes that belong to the run. Return why they are refused; empty if they are in the journal."""
        expected = self._aggregator.expected_nodes
        if not expected.has_room_for(note):
            return f"a run has at most {limits.NODES:,} nodes"
        if expected.is_news(note):
            now_ns = self.stamp()
            self._note(note, now_ns)
            self._numbers.take_note(note, now_ns)
        return ""

    def tell_backend(self, stat: BackendStat) -> None:
        """Note that the run has a backend, and whether its writer has ended. Other reports change nothing."""
        lasting = stat if stat.state in BACKEND_ENDED else BackendStat(name=stat.name, kind=stat.kind)
        if lasting not in self._numbers.run.backends:
            now_ns, note = self.stamp(), TellBackend(stat=lasting)
            self._note(note, now_ns)
            self._numbers.take_note(note, now_ns)

    def roll(self, snapshot_seq: int, elapsed_ns: int | None = None) -> Interval:
        """End an interval of the history. It has lasted since the previous one, or `elapsed_ns`.

        Its times are those of the run's clock, so that no step of the system's clock moves a time range.
        """
        now_ns, run = self.stamp(), self._numbers.run
        if elapsed_ns is None:
            elapsed_ns = now_ns - run.rolled_mono_ns
        rolled = Rolled(
            start_wall_ns=run.rolled_wall_ns,
            end_wall_ns=min(run.rolled_wall_ns + elapsed_ns, LATEST_NS),
            elapsed_ns=elapsed_ns,
            snapshot_seq=snapshot_seq,
        )
        self._note(rolled, now_ns)
        return self._numbers.roll(rolled, now_ns)

    def slice(self) -> None:
        """End a slice of the current interval of the history."""
        now_ns, sliced = self.stamp(), Sliced()
        self._note(sliced, now_ns)
        self._numbers.take_note(sliced, now_ns)

    def take_slices(self) -> list[Slice]:
        """Return the slices since the last call, from all changes made here."""
        return self._numbers.take_slices()

    def ending(self, ending: Ending) -> None:
        """Record how the run ends, as far as known."""
        if ending != self._numbers.run.ending:
            now_ns = self.stamp()
            self._note(ending, now_ns)
            self._numbers.take_note(ending, now_ns)

    def close(self) -> None:
        """Close the numbers: no event will follow."""
        now_ns, closed = self.stamp(), Closed()
        self._note(closed, now_ns)
        self._numbers.take_note(closed, now_ns)

    def note_bad_frames(self) -> None:
        """Journal the bad frames since the last call. The numbers include them already."""
        counts = self._aggregator.take_bad_frames()
        if counts:
            self._note(BadFrames(counts=counts), self.stamp())

    # --- notes -----------------------------------------------------------------------------------

    def _note(self, note: Note, now_ns: int) -> None:
        if self._journal is not None:
            self._journal.note([encode_note(note)], now_ns)

    def _is_introduced(self, hello: Hello, now_ns: int) -> bool:
        """Return whether a hello says nothing new about a producer, or about the clock of a leaf."""
        producer = self._aggregator.book.get(hello.producer)
        if producer is None or self._numbers.is_named_by(hello):
            return False
        identity = (hello.name, hello.host, hello.pid, hello.rank, hello.ring)
        if not producer.greeted or identity != (
            producer.name,
            producer.host,
            producer.pid,
            producer.rank,
            producer.ring,
        ):
            return False
        node = producer.node
        return node is None or (hello.node in ("", node.name) and not node.improves(hello, now_ns))

    def _is_news(self, end: End) -> bool:
        """Check that an `end` changes the numbers: the first one, and the first that contradicts it."""
        producer = self._aggregator.book.get(end.producer)
        if producer is None or producer.end is None:
            return True
        before = producer.end
        same = (end.batches, end.emitted, end.dropped) == (before.batches, before.emitted, before.dropped)
        if same or end.producer in self._contradicted:
            return False
        self._contradicted.add(end.producer)
        return True
