"""The record stream over real sockets: late joins and lost publications leave no hole and no doubles."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from telemetry.errors import EndpointError
from telemetry.transport import Hub, plan
from telemetry.transport.record_stream import RecordStream
from telemetry.wire.codec import decode_request, encode_control, encode_stream_record
from telemetry.wire.control import Catchup, CaughtUp, Hello, Ping, Pong, Welcome
from telemetry.wire.events import Mark, StreamRecord
from telemetry.wire.snapshot import State
from telemetry.wire.version import PROTOCOL

DEADLINE_S = 20.0
PAGE = 3


class FakeAggregator:
    """Answers what the stream asks, on a thread that owns the hub. What it publishes and logs is up to the test."""

    def __init__(self, folder: Path) -> None:
        self.log: list[StreamRecord] = []
        self.state: State = "LIVE"
        self._published: list[StreamRecord] = []
        self._stopping = threading.Event()
        self.answering = threading.Event()
        self.answering.set()
        self._hub = Hub(plan(f"ipc://{folder}/c", "r"))
        self.endpoint = self._hub.endpoints.control
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def add(self, count: int, *, published: bool = True, logged: bool = True) -> None:
        """New records at the end of the sequence."""
        first = self._next
        made = [record(seq) for seq in range(first, first + count)]
        self._next = first + count
        if logged:
            self.log += made
        if published:
            self._published += made

    _next = 0

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(DEADLINE_S)
        self._hub.close()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            self._hub.wait(0.01)
            self.answering.wait(DEADLINE_S)
            for peer, data in self._hub.receive_control(100):
                self._hub.send_control(peer, encode_control(self._answer(decode_request(data))))
            while self._published:
                self._hub.publish_record(encode_stream_record(self._published.pop(0)))

    def _answer(self, request: object) -> Welcome | Pong | CaughtUp:
        if isinstance(request, Hello):
            points = self._hub.endpoints
            return Welcome(
                id=request.id,
                run_id="r",
                name="n",
                epoch="e",
                state=self.state,
                events=points.events,
                snapshots=points.snapshots,
                records=points.records,
            )
        if isinstance(request, Ping):
            return Pong(id=request.id, epoch="e", state=self.state)
        assert isinstance(request, Catchup)
        page = [found for found in self.log if found.seq >= request.from_seq][:PAGE]
        following = page[-1].seq + 1 if page else request.from_seq
        last = self.log[-1].seq if self.log else -1
        return CaughtUp(id=request.id, records=page, next_seq=following, last_seq=last)


def record(seq: int) -> StreamRecord:
    return StreamRecord(PROTOCOL, "r", seq, "p", seq, Mark(text=f"m{seq}"))


@pytest.fixture
def aggregator() -> Iterator[FakeAggregator]:
    folder = Path(tempfile.mkdtemp(prefix="tm"))
    made = FakeAggregator(folder)
    yield made
    made.stop()
    shutil.rmtree(folder)


def take(stream: RecordStream, count: int) -> list[int]:
    """The numbers of the next `count` records."""
    return [found.seq for found in collect(stream, lambda got: len(got) == count)]


def collect(stream: RecordStream, enough: Callable[[list[StreamRecord]], bool]) -> list[StreamRecord]:
    got: list[StreamRecord] = []
    deadline = time.monotonic() + DEADLINE_S
    while not enough(got) and not stream.ended:
        assert time.monotonic() < deadline, f"only {got}"
        found = stream.recv(0.1)
        if found is not None:
            got.append(found)
    return got


def test_a_late_join_begins_at_the_beginning(aggregator: FakeAggregator) -> None:
    """Records from before the subscription come from the log, page by page, then live ones follow."""
    aggregator.add(10, published=False)
    with RecordStream(aggregator.endpoint) as stream:
        assert take(stream, 10) == list(range(10))
        aggregator.add(5)
        assert take(stream, 5) == list(range(10, 15))
        assert stream.missed == 0


def test_it_can_begin_anywhere(aggregator: FakeAggregator) -> None:
    """A reader that knows where it stopped goes on from there."""
    aggregator.add(10, published=False)
    with RecordStream(aggregator.endpoint, from_seq=7) as stream:
        assert take(stream, 3) == [7, 8, 9]


def test_lost_publications_are_filled_from_the_log(aggregator: FakeAggregator) -> None:
    """Lost records come from the log, once and in order. A later record may show the gap, or nothing may follow."""
    with RecordStream(aggregator.endpoint) as stream:
        aggregator.add(4, published=False)
        aggregator.add(2)
        aggregator.add(4, published=False)
        assert take(stream, 10) == list(range(10))
        assert stream.recv(0.05) is None
        assert stream.missed == 0


def test_what_the_log_has_not_is_counted(aggregator: FakeAggregator) -> None:
    """Records that were neither received nor logged are a number, not a silent hole."""
    with RecordStream(aggregator.endpoint) as stream:
        aggregator.add(3, published=False, logged=False)
        aggregator.add(2)
        assert take(stream, 2) == [3, 4]
        assert stream.missed == 3


def test_it_ends_with_the_run_after_the_last_record(aggregator: FakeAggregator) -> None:
    """A terminal state ends the stream, but not before all records were handed out."""
    with RecordStream(aggregator.endpoint) as stream:
        aggregator.add(5, published=False)
        aggregator.state = "COMPLETE"
        assert [found.seq for found in collect(stream, lambda _: False)] == list(range(5))
        assert stream.ended


def test_it_ends_when_the_aggregator_is_gone(aggregator: FakeAggregator) -> None:
    """A killed aggregator ends the stream in bounded time; what came before is handed out."""
    with RecordStream(aggregator.endpoint, timeout_s=0.3) as stream:
        aggregator.add(2)
        assert take(stream, 2) == [0, 1]
        aggregator.stop()
        assert collect(stream, lambda _: False) == []
        assert stream.ended


def test_it_outlasts_an_aggregator_that_is_stopped_for_a_while(aggregator: FakeAggregator) -> None:
    """Silence is not the end: what comes afterwards is handed out too."""
    with RecordStream(aggregator.endpoint, timeout_s=0.1) as stream:
        aggregator.add(1)
        assert take(stream, 1) == [0]
        aggregator.answering.clear()
        began = time.monotonic()
        while time.monotonic() < began + 1.5:
            assert stream.recv(0.1) is None
        assert not stream.ended
        aggregator.answering.set()
        aggregator.add(2)
        assert take(stream, 2) == [1, 2]


def test_no_more_than_a_page_waits(aggregator: FakeAggregator) -> None:
    """A reader that is far behind and slow holds at most a page of records. It knows how many there are."""
    aggregator.add(100, published=False)
    with RecordStream(aggregator.endpoint) as stream:
        assert take(stream, 1) == [0]
        assert (stream.next_seq, stream.known) == (PAGE, 100)
        aggregator.add(1)
        assert take(stream, 100) == list(range(1, 101))
        assert (stream.missed, stream.known) == (0, 101)


def test_what_is_had_from_elsewhere_is_passed_over(aggregator: FakeAggregator) -> None:
    """Records that the reader has from elsewhere are passed over. They may already wait here or not."""
    aggregator.add(10, published=False)
    with RecordStream(aggregator.endpoint) as stream:
        stream.skip_to(1)
        assert take(stream, 1) == [1]
        stream.skip_to(8)
        assert take(stream, 2) == [8, 9]
        assert stream.missed == 0


def test_who_hurries_hears_of_the_end_at_once(aggregator: FakeAggregator) -> None:
    """A reader that hurries hears of the end at once; any other hears of it within a second.

    The stream is then over, not gone, and all records are here.
    """
    with RecordStream(aggregator.endpoint) as stream:
        assert stream.recv(0.0) is None
        aggregator.add(10, published=False)
        aggregator.state = "COMPLETE"
        stream.hurry()
        assert take(stream, 1) == [0]
        aggregator.stop()
        assert take(stream, 9) == list(range(1, 10))
        assert stream.recv(0.0) is None
        assert (stream.ended, stream.gone) == (True, False)


def test_nobody_there() -> None:
    """The constructor of a stream fails in bounded time if there is no aggregator."""
    folder = Path(tempfile.mkdtemp(prefix="tm"))
    with pytest.raises(EndpointError):
        RecordStream(f"ipc://{folder}/nobody", timeout_s=0.1)
    shutil.rmtree(folder)
