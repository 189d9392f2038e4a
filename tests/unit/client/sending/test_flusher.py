"""The thread: when it sends, when it gives up, how it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry import limits
from telemetry.client.sending import flusher as flusher_module
from telemetry.client.sending.flusher import Flusher, FlusherParts
from telemetry.client.sending.session import ProducerSession
from telemetry.errors import EndpointError, NoRoomError, TelemetryError
from telemetry.wire.control import Ack, End, Ended, Error, Hello, Pong, Request, Response, Welcome

WaitUntil = Callable[..., Any]
WELCOME = Welcome(
    id=1, run_id="r", name="job", epoch="e", state="LIVE", events="ipc:///ev", snapshots="", records=""
)


def willing(request: Request) -> list[Response]:
    """An aggregator that takes everything."""
    if isinstance(request, Hello):
        return [WELCOME]
    if isinstance(request, End):
        return [Ended(id=3, emitted=request.emitted, received=request.emitted, missing=0)]
    return []


class Bench:
    """A flusher over a link without sockets."""

    def __init__(self, link: Any, desk: Any) -> None:
        self.link = link
        self.desk = desk
        self.given_up: list[TelemetryError] = []
        self.told_over: list[int] = []
        self.on_turn: Callable[[], object] = lambda: None
        self.refusing = self.kept = False
        self.made: list[Flusher] = []

    def start(
        self,
        period_s: float = 0.002,
        patience_s: float | None = None,
        connect: Any = None,
        endpoint: str = "ipc:///ctl",
    ) -> Flusher:
        flusher = Flusher(
            FlusherParts(
                endpoint=endpoint,
                hello=Hello(producer="p1"),
                outbox=self.desk.outbox,
                connect=connect or (lambda: self.link),
                refuses=lambda endpoint: self.refusing,
                kept=lambda run_id: self.kept,
                period_s=period_s,
                connect_timeout_s=patience_s,
                on_given_up=self.given_up.append,
                on_run_over=lambda: self.told_over.append(1),
                on_turn=self.on_turn,
            )
        )
        self.made.append(flusher)
        flusher.start()
        return flusher


@pytest.fixture
def bench(link: Any, desk: Any) -> Iterator[Bench]:
    made = Bench(link, desk)
    yield made
    for flusher in made.made:
        flusher.stop()


def test_events_are_sent_within_a_period(bench: Bench, wait_until: WaitUntil) -> None:
    """The flusher sends events within a period, and needs no call to wake it."""
    bench.link.answer = willing
    flusher = bench.start()
    assert flusher.wait_for_welcome(5.0) == WELCOME
    bench.desk.fill(5)
    wait_until(lambda: bench.link.frames, what="a batch")
    assert bench.link.batches[0].rows.count == 5


def test_it_does_not_sleep_while_a_full_batch_waits(bench: Bench, wait_until: WaitUntil, make_desk: Any) -> None:
    """One wake-up empties the buffer, however long the period."""
    bench.desk = make_desk(row_bound=None)
    bench.link.answer = willing
    flusher = bench.start(period_s=60.0)
    flusher.wait_for_welcome(5.0)
    bench.desk.fill(3 * limits.BATCH_EVENTS)
    flusher.wake()
    wait_until(lambda: len(bench.link.frames) == 3, what="three batches from one wake-up")


def test_finishing_sends_what_is_left_and_waits_for_the_account(bench: Bench) -> None:
    """The link is closed without delay then."""
    bench.link.answer = willing
    flusher = bench.start(period_s=60.0)
    flusher.wait_for_welcome(5.0)
    bench.desk.fill(7)
    ending = flusher.finish(5.0)
    assert ending.account == Ended(id=3, emitted=7, received=7, missing=0)
    assert ending.reason == ""
    assert bench.link.closed_with == 0.0


def test_finishing_before_the_welcome_still_delivers(bench: Bench) -> None:
    """A process may be over before its aggregator has answered."""
    flusher = bench.start()
    bench.desk.fill(3)
    threading.Timer(
        0.05, lambda: setattr(bench.link, "answer", willing) or bench.link.inbox.append(WELCOME)
    ).start()
    ending = flusher.finish(10.0)
    assert ending.account is not None
    assert bench.link.batches[0].rows.count == 3


def test_an_aggregator_that_takes_nothing_is_waited_for_within_bounds(bench: Bench) -> None:
    """The wait for an aggregator that takes nothing is bounded.

    The unsent events are in the end message, which it may still read.
    """
    bench.link.answer = lambda request: [WELCOME] if isinstance(request, Hello) else []
    flusher = bench.start()
    flusher.wait_for_welcome(5.0)
    bench.link.room = 0
    bench.desk.fill(4)
    ending = flusher.finish(0.3)
    assert ending.account is None
    assert "did not acknowledge" in ending.reason
    [end, *_] = [message for message in bench.link.asked if isinstance(message, End)]
    assert (end.emitted, end.dropped) == (4, {"unsent_at_exit": 4})
    assert bench.link.closed_with == 1.0


def test_the_end_is_said_however_little_time_is_left(bench: Bench) -> None:
    """The end message has the account even if no time is left, as on a busy machine.

    The message lingers with the last bytes.
    """
    bench.link.answer = lambda request: [WELCOME] if isinstance(request, Hello) else []
    flusher = bench.start()
    flusher.wait_for_welcome(5.0)
    bench.link.room = 0
    bench.desk.fill(4)
    assert flusher.finish(0.0).account is None
    [end] = [message for message in bench.link.asked if isinstance(message, End)]
    assert (end.emitted, end.dropped) == (4, {"unsent_at_exit": 4})


def test_an_aggregator_that_is_gone_is_not_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aggregator whose address refuses is not waited for, since it will not come back."""
    monkeypatch.setattr(flusher_module, "_GONE_AFTER_S", 0.1)
    monkeypatch.setattr(flusher_module, "_PROBE_S", 0.02)
    bench.link.answer = lambda request: [WELCOME] if isinstance(request, Hello) else []
    flusher = bench.start()
    flusher.wait_for_welcome(5.0)
    bench.refusing = True
    bench.link.room = 0
    bench.desk.fill(4)
    ending = flusher.finish(60.0)
    assert ending.reason.endswith(" is gone")


@pytest.mark.slow
def test_an_aggregator_that_was_killed_is_waited_for_longer(
    bench: Bench, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another may be on its way, which takes its address over from the file that lies there. Whoever has given up
    starting one takes the file away."""
    monkeypatch.setattr(flusher_module, "_GONE_AFTER_S", 0.0)
    monkeypatch.setattr(flusher_module, "_PROBE_S", 0.02)
    monkeypatch.setattr(limits, "RETURN_S", 1.0)
    bench.link.answer = lambda request: [WELCOME] if isinstance(request, Hello) else []
    bench.refusing = True
    left_behind = short_dir / "c"
    left_behind.touch()
    took_s = []
    for _ in range(2):
        flusher = bench.start(endpoint=f"ipc://{left_behind}")
        flusher.wait_for_welcome(5.0)
        bench.desk.fill(4)
        begun = time.monotonic()
        assert flusher.finish(60.0).reason.endswith(" is gone")
        took_s.append(time.monotonic() - begun)
        left_behind.unlink(missing_ok=True)
    assert took_s[0] >= 1.0 > took_s[1]


def test_an_aggregator_that_was_killed_is_not_waited_for_when_all_is_acknowledged(
    bench: Bench, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed aggregator is not waited for if no event is left that another aggregator would need."""
    quickly(monkeypatch, return_s=60.0)
    bench.link.answer = deaf()
    bench.refusing = True
    flusher = bench.start(endpoint=address(short_dir))
    flusher.wait_for_welcome(5.0)
    begun = time.monotonic()
    assert flusher.finish(30.0).reason.endswith(" is gone")
    assert time.monotonic() - begun < 10.0


def test_a_refusal_that_comes_while_it_finishes_ends_the_wait(bench: Bench) -> None:
    """Repeating hello until the timeout would change nothing."""
    bench.link.answer = lambda request: (
        [Error(id=1, code="refused", message="too many")] if isinstance(request, Hello) else []
    )
    finishing = threading.Event()

    def connect() -> Any:
        finishing.wait(10.0)
        return bench.link

    bench.desk.fill(4)
    flusher = bench.start(connect=connect)
    flusher._finish_by = latest = time.monotonic() + 30.0
    finishing.set()
    assert "too many" in flusher.finish(30.0).reason
    assert time.monotonic() < latest - 20.0


def quickly(monkeypatch: pytest.MonkeyPatch, return_s: float = 0.2) -> None:
    """Looks at addresses all the time."""
    monkeypatch.setattr(flusher_module, "_GONE_AFTER_S", 0.2)
    monkeypatch.setattr(flusher_module, "_PROBE_S", 0.01)
    monkeypatch.setattr(limits, "RETURN_S", return_s)


def address(folder: Path) -> str:
    """One that a killed aggregator has left behind."""
    (folder / "c").touch()
    return f"ipc://{folder}/c"


def left_run(folder: Path) -> Welcome:
    """The welcome to a run with a journal."""
    (folder / "journal").mkdir()
    (folder / "journal" / "0").touch()
    return replace(WELCOME, directory=str(folder))


def deaf(welcome: Welcome = WELCOME) -> Callable[[Request], list[Response]]:
    """An aggregator that has said hello and dies."""
    return lambda request: [welcome] if isinstance(request, Hello) else []


@pytest.mark.slow
def test_an_address_that_changes_hands_is_not_given_up(
    bench: Bench, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A moment without the socket file means no end of the run.

    A new aggregator first removes the file of the dead one.
    """
    quickly(monkeypatch, return_s=60.0)
    bench.link.answer = deaf()
    path = short_dir / "c"
    path.touch()
    bench.refusing = True
    flusher = bench.start(endpoint=f"ipc://{path}")
    flusher.wait_for_welcome(5.0)
    bench.desk.fill(4)
    looks = []

    def refuses(endpoint: str) -> bool:
        looks.append(path.exists())
        path.unlink() if len(looks) % 5 == 0 else path.touch()
        return True

    object.__setattr__(flusher._parts, "refuses", refuses)
    begun = time.monotonic()
    assert flusher.finish(1.5).account is None
    assert len(looks) > 20
    assert time.monotonic() - begun >= 1.5


@pytest.mark.slow
def test_a_run_that_is_kept_is_waited_for_as_long_as_there_is_time(
    bench: Bench, short_dir: Path, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kept run is waited for as long as there is time.

    On a busy machine a restart takes longer than the wait for an uncertain one.
    """
    quickly(monkeypatch)
    bench.link.answer = deaf()
    flusher = bench.start(endpoint=address(short_dir))
    flusher.wait_for_welcome(5.0)
    bench.desk.fill(3)
    wait_until(lambda: bench.link.frames, what="a batch")
    bench.refusing = bench.kept = True

    def return_() -> None:
        bench.link.answer = willing
        bench.link.inbox.append(Ended(id=3, emitted=3, received=3, missing=0))

    threading.Timer(1.0, return_).start()
    assert flusher.finish(30.0).account is not None


def test_a_producer_of_a_run_that_ends_waits_for_the_next_aggregator_to_drain(
    bench: Bench, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that said so may be dead, and the one that follows be late: there is time for both of them. Who then
    finishes may have less."""
    monkeypatch.setattr(limits, "DRAIN_TIMEOUT_S", 0.1)
    bench.link.answer = deaf()
    flusher = bench.start()
    flusher.wait_for_welcome(5.0)
    bench.desk.fill(5)
    bench.link.inbox.append(Pong(epoch="e", state="DRAINING"))
    wait_until(lambda: bench.told_over, what="the end of the run")
    assert flusher._finish_by is not None
    assert flusher._finish_by - time.monotonic() > limits.RESTART_TIMEOUT_S
    begun = time.monotonic()
    assert flusher.finish(0.3).account is None
    assert time.monotonic() - begun < 10.0


LOST = "900 events were not acknowledged and may be lost: the aggregator at {at} is gone"
RECOVER = "; `telemetry recover {run}` makes a result of the events that arrived"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (900, LOST + RECOVER),
        (0, "the aggregator at {at} is gone; all events were acknowledged" + RECOVER),
        (900, LOST),
        (0, ""),
    ],
)
def test_what_was_not_acknowledged_is_said_with_what_can_be_done(
    bench: Bench, short_dir: Path, monkeypatch: pytest.MonkeyPatch, more: int, words: str
) -> None:
    """The ending names the unacknowledged events, and the command to recover if there is a journal.

    The ending is silent if no event is lost and there is no journal.
    """
    quickly(monkeypatch)
    at = address(short_dir)
    bench.link.answer = deaf(left_run(short_dir) if RECOVER in words else WELCOME)
    flusher = bench.start(endpoint=at)
    flusher.wait_for_welcome(5.0)
    bench.desk.fill(4)
    deadline = time.monotonic() + 10.0
    while (talk := flusher._conversation) is None or talk.ring.taken < 4:
        assert time.monotonic() < deadline
        bench.link.inbox.append(Ack(epoch="e", batches=1))
        threading.Event().wait(0.01)
    bench.desk.fill(more)
    bench.refusing = True
    ending = flusher.finish(60.0)
    assert (ending.account, ending.taken, ending.unacknowledged) == (None, 4, more)
    assert ending.in_words() == words.format(at=at, run=short_dir)


def test_a_run_that_was_left_is_spoken_of_once_while_the_program_goes_on(
    bench: Bench, short_dir: Path, wait_until: WaitUntil, said: Callable[[], list[str]], monkeypatch: Any
) -> None:
    """There is still time to start another aggregator."""
    quickly(monkeypatch)
    monkeypatch.setattr(ProducerSession, "silent", True)
    at = address(short_dir)
    bench.link.answer = deaf(left_run(short_dir))
    flusher = bench.start(endpoint=at)
    flusher.wait_for_welcome(5.0)
    bench.refusing = True
    wait_until(said, what="a line")
    looked = len(bench.link.asked)
    wait_until(lambda: len(bench.link.asked) > looked, what="another second")
    [line] = said()
    assert line.startswith(f"telemetry: the aggregator at {at} is gone. Events are buffered in this process until ")
    assert f"`telemetry serve --resume {short_dir}`" in line


def test_who_waits_for_a_welcome_learns_why_there_is_none(bench: Bench) -> None:
    """Silence, a refusal, or an address that is none."""
    with pytest.raises(EndpointError, match=r"no aggregator answered at ipc:///ctl within 0\.05 s"):
        bench.start().wait_for_welcome(0.05)
    bench.link.answer = lambda request: [Error(id=1, code="no_room", message="full")]
    with pytest.raises(NoRoomError, match="full"):
        bench.start().wait_for_welcome(5.0)

    def connect() -> Any:
        raise EndpointError("that is not an address")

    with pytest.raises(EndpointError, match="that is not an address"):
        bench.start(connect=connect).wait_for_welcome(5.0)


@pytest.mark.parametrize("when", ["connecting", "before the welcome"])
def test_a_machine_without_room_is_given_up(bench: Bench, wait_until: WaitUntil, when: str) -> None:
    """A machine without a free descriptor gives an error. No events pile up for the thread that is gone."""

    def fail(*_: object) -> Any:
        raise OSError("Too many open files")

    if when == "connecting":
        flusher = bench.start(connect=fail)
    else:
        bench.link.receive_control = fail
        bench.desk.outbox.settle = lambda: None
        flusher = bench.start()
    with pytest.raises(EndpointError, match="Too many open files"):
        flusher.wait_for_welcome(10.0)
    wait_until(lambda: bench.given_up, what="giving up")
    ending = flusher.finish(10.0)
    assert ending.account is None
    assert "Too many open files" in ending.reason


def test_a_refusal_in_mid_run_is_told(bench: Bench, wait_until: WaitUntil) -> None:
    """Another aggregator took over the address, and does not take this producer."""
    bench.link.answer = willing
    flusher = bench.start()
    flusher.wait_for_welcome(5.0)
    bench.link.answer = lambda request: [Error(id=1, code="refused", message="more than 4,096 producers")]
    bench.link.inbox.append(Pong(epoch="another", state="LIVE"))
    wait_until(lambda: bench.given_up, what="giving up")
    assert "4,096" in str(bench.given_up[0])
    assert flusher.over
    assert flusher.welcomed


@pytest.mark.slow
def test_a_long_period_does_not_loosen_the_bound(make_desk: Any, bench: Bench, wait_until: WaitUntil) -> None:
    """Nor does it make the end of the run wait: a period says how long an event may wait, and no more."""
    bench.desk = make_desk(row_bound=1_000)
    bench.link.answer = willing
    flusher = bench.start(period_s=600.0)
    flusher.wait_for_welcome(5.0)
    bench.link.room = 0
    bench.desk.fill(50_000)
    wait_until(lambda: bench.desk.outbox.waiting <= 1_000, what="the bound")
    bench.link.inbox.append(Pong(epoch="e", state="DRAINING"))
    wait_until(lambda: bench.told_over, what="the end of the run")


def test_it_gives_up_if_nobody_ever_answers(bench: Bench, wait_until: WaitUntil) -> None:
    """Instruments are told, so that the buffer does not fill for nothing."""
    bench.start(patience_s=0.05)
    wait_until(lambda: bench.given_up, what="giving up")
    assert isinstance(bench.given_up[0], EndpointError)
    wait_until(lambda: bench.link.closed_with is not None)


def test_an_error_in_a_turn_is_said_once_and_survived(
    bench: Bench, wait_until: WaitUntil, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flusher that died would leave a buffer that grows."""
    bench.link.answer = willing
    flusher = bench.start()
    flusher.wait_for_welcome(5.0)
    failures: list[int] = []

    def fail() -> None:
        failures.append(1)
        raise MemoryError("none left")

    with monkeypatch.context() as patched:
        patched.setattr(bench.desk.outbox, "settle", fail)
        wait_until(lambda: len(failures) > 3)
    bench.desk.fill(2)
    wait_until(lambda: bench.link.frames, what="a batch after the errors")
    assert len(said()) == 1


def test_a_run_that_ends_without_this_process_is_told_all_it_has(bench: Bench, wait_until: WaitUntil) -> None:
    """`telemetry stop` elsewhere: what was recorded until now counts, what comes later is late."""
    bench.link.answer = willing
    flusher = bench.start()
    flusher.wait_for_welcome(5.0)
    bench.desk.fill(5)
    bench.link.inbox.append(Pong(epoch="e", state="DRAINING"))
    wait_until(lambda: bench.told_over, what="the end of the run")
    ending = flusher.finish(5.0)
    assert ending.account == Ended(id=3, emitted=5, received=5, missing=0)


def test_what_others_have_to_do_now_and_then_is_done(
    bench: Bench, wait_until: WaitUntil, said: Callable[[], list[str]]
) -> None:
    """Errors of the periodic call are reported once. Waiting events are sent all the same."""
    bench.link.answer = willing
    turns: list[int] = []

    def fail() -> None:
        turns.append(1)
        raise MemoryError("none left")

    bench.on_turn = fail
    flusher = bench.start()
    flusher.wait_for_welcome(5.0)
    bench.desk.fill(2)
    wait_until(lambda: bench.link.frames and len(turns) > 3)
    assert len(said()) == 1


@pytest.fixture
def flood(bench: Bench) -> Iterator[Bench]:
    """A bench whose buffer holds another full batch as soon as one is sent, and whose aggregator takes all."""
    link, outbox, flooding = bench.link, bench.desk.outbox, [True]
    batch = [0.0, 1, 1.0] * limits.BATCH_EVENTS

    def send(_frame: bytes | bytearray) -> bool:
        if flooding:
            bench.desk.recorders.buffer.extend(batch)
        link.inbox.append(Ack(batches=outbox.next_seq, epoch="e"))
        return True

    bench.desk.recorders.buffer.extend(batch)
    outbox.row_bound = None
    link.answer = willing
    link.send_events = send
    yield bench
    flooding.clear()


@pytest.mark.parametrize("period_s", [0.002, 600.0])
def test_what_is_to_be_done_is_done_in_a_flood(flood: Bench, wait_until: WaitUntil, period_s: float) -> None:
    """Now and then, whatever the period, not once for each batch; an error of it holds up none."""
    turns: list[int] = []

    def fail() -> None:
        turns.append(flood.desk.outbox.next_seq)
        raise MemoryError("none left")

    flood.on_turn = fail
    flusher = flood.start(period_s=period_s)
    flusher.wait_for_welcome(5.0)
    wait_until(lambda: len(turns) > 2)
    wait_until(lambda: flood.desk.outbox.next_seq > turns[2], what="batches after it")


def test_the_end_of_the_run_is_noticed_in_a_flood(flood: Bench, wait_until: WaitUntil) -> None:
    """A producer that floods a run notices its end, and so doesn't delay it until the deadline."""
    flusher = flood.start()
    flusher.wait_for_welcome(5.0)
    flood.link.inbox.append(Pong(epoch="e", state="DRAINING"))
    wait_until(lambda: flood.told_over, what="the end of the run")


def test_a_refusal_is_noticed_in_a_flood(flood: Bench, wait_until: WaitUntil) -> None:
    """A producer in a flood notices a refusal, since its events are no longer accepted."""
    flusher = flood.start()
    flusher.wait_for_welcome(5.0)
    flood.link.inbox.append(Error(id=1, code="refused", message="more than 4,096 producers"))
    wait_until(lambda: flood.given_up, what="giving up")
