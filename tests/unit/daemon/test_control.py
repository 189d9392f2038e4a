"""The aggregator's side of the control channel, on real sockets."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from telemetry import limits
from telemetry.daemon.service import Service
from telemetry.errors import ProtocolError
from telemetry.store.journal import NOTE, JournalReader
from telemetry.transport.client import ControlClient
from telemetry.wire import control as msg
from telemetry.wire.codec import Malformed, decode_note, decode_request, encode_control
from telemetry.wire.events import Axis, Count, Mark, Scalars, StepClear, StepEnd
from telemetry.wire.snapshot import BackendStat
from telemetry.wire.version import Version

TIMEOUT_S = 20.0


@pytest.fixture
def run_apart() -> Iterator[Callable[[Service], str]]:
    """`run_apart(service)` takes its turns on a thread until the test ends; returns the control address."""
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def start(service: Service) -> str:
        threads.append(threading.Thread(target=service.turns_until, args=(stopping.is_set,)))
        threads[-1].start()
        return service.parts.hub.endpoints.control

    yield start
    stopping.set()
    for thread in threads:
        thread.join()


def test_every_question_of_a_client_is_answered(make_service: Any, run_apart: Any) -> None:
    """The package's own client against the package's own control, one request of each type."""
    service = make_service()
    endpoint = run_apart(service)
    with ControlClient(endpoint) as client:

        def ask(request: msg.Request) -> Any:
            return client.request(request, TIMEOUT_S)

        welcome = ask(msg.Hello(mono_ns=5))
        assert (welcome.run_id, welcome.name, welcome.epoch, welcome.echo_ns) == ("r1", "job", "e1", 5)
        assert (welcome.events, welcome.directory) == (
            service.parts.hub.endpoints.events,
            str(service.parts.directory.path),
        )
        assert abs(welcome.mono_ns - ask(msg.Ping(mono_ns=6)).mono_ns) < 60e9
        assert ask(msg.Ping(mono_ns=6)).echo_ns == 6
        assert ask(msg.GetStatus()).snapshot.state == "INITIALIZE"
        assert ask(msg.GetHistory()) == msg.History(id=5)
        assert ask(msg.Catchup()) == msg.CaughtUp(id=6)
        assert ask(msg.Barrier(producer="p", batches=0)).batches == 0
        assert ask(msg.Watch(pid=os.getpid())).pid == os.getpid()
        ended = ask(msg.End(producer="p", batches=0, emitted=3, dropped={"buffer_full": 3}))
        assert (ended.emitted, ended.received, ended.missing) == (3, 0, 0)
        assert ask(msg.Stop(reason="enough")).state in ("INITIALIZE", "LIVE")
    assert (service.run_status.ending, service.run_status.reason) == (True, "enough")


def test_what_cannot_be_answered_is_an_error(make_service: Any, run_apart: Any) -> None:
    """Another version, a level that is none, a history that is off: each says so."""
    service = make_service({"history.enabled": False})
    with ControlClient(run_apart(service)) as client:
        for request, code, words in (
            (msg.Hello(version=(9, 0)), "wrong version", "speaks protocol 1.6, not 9.0"),
            (msg.GetHistory(level_s=7), "unavailable", "no history level of 7 s"),
            (msg.GetHistory(), "unavailable", "can't read"),
        ):
            with pytest.raises(ProtocolError) as caught:
                client.request(request, TIMEOUT_S)
            assert caught.value.hint == code
            assert words in caught.value.message


def test_a_question_that_fails_costs_nobody_the_run(make_service: Any, connect: Any) -> None:
    """A question that fails is answered with an error, logged, and reported in the snapshot."""
    service = make_service()
    peer = connect(service)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    service.control._handlers[msg.Watch] = fail
    answer = peer.ask(msg.Watch(id=4, pid=1))
    assert isinstance(answer, msg.Error)
    assert answer.code == "unavailable"
    assert service.snapshot().warnings == ["the request failed, Watch: ZeroDivisionError('a defect')"]
    assert "ZeroDivisionError" in service.parts.directory.log.read_text()


def test_a_process_number_that_cannot_be(make_service: Any, run_apart: Any) -> None:
    """An impossible process number from a peer does not end the run's loop."""
    service = make_service()
    with ControlClient(run_apart(service)) as client:
        for request in (msg.Watch(pid=1 << 40), msg.Hello(producer="p", pid=1 << 40)):
            with pytest.raises(ProtocolError, match="could not be read"):
                client.request(request, TIMEOUT_S)
        assert isinstance(client.request(msg.Watch(pid=os.getpid()), TIMEOUT_S), msg.Watching)


def test_a_process_that_is_gone_is_not_watched(make_service: Any, connect: Any) -> None:
    """A dead process is not watched: its end would be that of the run.

    One that its parent has not collected yet is known, and ends the run.
    """
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    service = make_service()
    peer = connect(service)
    answer = peer.ask(msg.Watch(id=2, pid=gone.pid))
    assert isinstance(answer, msg.Error)
    assert (answer.code, str(gone.pid) in answer.message) == ("refused", True)
    ticks = service.cost.ticks
    service.turns_until(lambda: service.cost.ticks > ticks + 3)
    assert not service.run_status.ending


def test_what_writers_tell_is_in_every_snapshot(make_service: Any, run_apart: Any) -> None:
    """Backends that writers tell are in the result, too.

    The journal has each writer once, and one too many is refused.
    """
    service = make_service()
    endpoint = run_apart(service)
    with ControlClient(endpoint) as client:
        for stat in (BackendStat(name="w", state="starting"), BackendStat(name="w", state="idle", next_record=3)):
            assert isinstance(client.request(msg.TellBackend(stat=stat), TIMEOUT_S), msg.Noted)
        [told] = client.request(msg.GetStatus(), TIMEOUT_S).snapshot.backends  # type: ignore[union-attr]
        assert told == stat
        for number in range(1, limits.BACKENDS):
            client.request(msg.TellBackend(stat=BackendStat(name=f"w{number}")), TIMEOUT_S)
        with pytest.raises(ProtocolError, match="too many backends"):
            client.request(msg.TellBackend(stat=BackendStat(name="more")), TIMEOUT_S)
        with pytest.raises(ProtocolError, match="could not be read"):
            client.request(msg.TellBackend(stat=BackendStat(name="")), TIMEOUT_S)
    assert len(service.snapshot().backends) == limits.BACKENDS
    frames = JournalReader(service.parts.directory.journal).frames()
    noted = [decode_note(bytes(item.data)) for item in frames if item.kind == NOTE]
    names = ["w", *(f"w{number}" for number in range(1, limits.BACKENDS))]
    assert noted == [msg.TellBackend(stat=BackendStat(name=name)) for name in names]


# --- the account ---------------------------------------------------------------------------------


def test_end_is_answered_when_all_is_in(make_service: Any, connect: Any) -> None:
    """The answer to an end comes after the last batch, and has the account."""
    service = make_service()
    peer = connect(service)
    late = peer.frame([Count("n")])
    peer.send(Count("n"))
    peer.end()
    peer.until(lambda: peer.all(msg.Resend))
    assert not peer.all(msg.Ended)
    peer.send_frame(late)
    peer.until(lambda: peer.all(msg.Ended))
    assert peer.all(msg.Ended) == [msg.Ended(id=9, emitted=2, received=2, missing=0)]
    peer.until(lambda: peer.all(msg.Ack)[-1:] == [msg.Ack(epoch="e1", batches=2)], "the acknowledgement")


@pytest.mark.parametrize(("version", "stopped", "unfinished"), [((1, 2), True, True), ((1, 2), False, False)])
def test_an_older_producer_that_ends_after_the_run_may_have_been_recording(
    make_service: Any, connect: Any, version: Version, stopped: bool, unfinished: bool
) -> None:
    """An older producer can't tell that the run's end forced its own, so it is not called complete."""
    service = make_service()
    peer = connect(service, greet=False)
    assert isinstance(peer.ask(msg.Hello(id=1, producer="p", version=version)), msg.Welcome)
    if stopped:
        peer.ask(msg.Stop(id=2))
    peer.ask(msg.End(id=3, producer="p", batches=0, emitted=0))
    (stat,) = service.snapshot().producers
    assert (stat.status, stat.unfinished) == ("ended", unfinished)


def test_a_barrier_is_answered_when_the_batches_are_applied(make_service: Any, connect: Any) -> None:
    """A producer learns that a status read now has its numbers."""
    service = make_service()
    peer = connect(service)
    peer.say(msg.Barrier(id=5, producer="p", batches=1))
    peer.ask(msg.Ping(id=6))
    assert not peer.all(msg.BarrierReached)
    peer.send(Count("n"))
    peer.until(lambda: peer.all(msg.BarrierReached))
    assert peer.all(msg.BarrierReached) == [msg.BarrierReached(id=5, batches=1)]


def test_a_barrier_says_what_the_producer_has_lost(make_service: Any, connect: Any) -> None:
    """A barrier tells the sender of a batch that the aggregator took it, and dropped a part of it."""
    service = make_service()
    peer = connect(service)
    peer.send(Count("n"), Count("n", -1.0))
    peer.say(msg.Barrier(id=5, producer="p", batches=1))
    peer.until(lambda: peer.all(msg.BarrierReached))
    assert peer.all(msg.BarrierReached) == [msg.BarrierReached(id=5, batches=1, dropped={"negative": 1})]


def test_a_repeated_end_is_owed_one_answer(make_service: Any, connect: Any) -> None:
    """A producer repeats its end until it is answered: the same request of the same peer replaces the first."""
    service = make_service()
    peer = connect(service)
    late = peer.frame([Count("n")])
    peer.send(Count("n"))
    for _ in range(50):
        peer.end()
    peer.ask(msg.Ping(id=6))
    assert service.control.owed == 1
    peer.send_frame(late)
    peer.until(lambda: peer.all(msg.Ended))
    peer.ask(msg.Ping(id=7))
    assert len(peer.all(msg.Ended)) == 1
    assert service.control.owed == 0


def test_what_is_owed_is_bounded(make_service: Any, connect: Any, monkeypatch: Any) -> None:
    """Beyond the bound a request is refused in words, and the others are still answered."""
    monkeypatch.setattr(limits, "CONTROL_OWED", 3)
    service = make_service()
    peer = connect(service)
    for number in range(10, 15):
        peer.say(msg.Barrier(id=number, producer="p", batches=1))
    peer.ask(msg.Ping(id=6))
    assert service.control.owed == 3
    refused = peer.all(msg.Error)
    assert [(one.id, one.code) for one in refused] == [(13, "refused"), (14, "refused")]  # type: ignore[union-attr]
    peer.send(Count("n"))
    peer.until(lambda: len(peer.all(msg.BarrierReached)) == 3)


def test_after_the_books_are_closed_nothing_is_owed(make_service: Any, connect: Any) -> None:
    """Requests that can't be settled any more are answered at once, with the account as it stands.

    Later requests are, too.
    """
    service = make_service()
    peer, other = connect(service), connect(service, "q")
    peer.frame([Count("n")])
    peer.send(Count("n"))
    peer.end()
    other.say(msg.Barrier(id=5, producer="q", batches=1))
    other.ask(msg.Ping(id=6))
    peer.applied(1)
    service.control.give_up()
    peer.until(lambda: peer.all(msg.Ended))
    assert peer.all(msg.Ended) == [msg.Ended(id=9, emitted=2, received=1, missing=1)]
    other.until(lambda: other.all(msg.Error))
    assert [(one.id, one.code) for one in other.all(msg.Error)] == [(5, "unavailable")]  # type: ignore[union-attr]
    assert other.ask(msg.End(id=9, producer="q", batches=4, emitted=4)) == msg.Ended(
        id=9, emitted=4, received=0, missing=4
    )
    assert isinstance(other.ask(msg.Barrier(id=10, producer="q", batches=4)), msg.Error)
    assert service.control.owed == 0


def test_a_producer_that_comes_after_the_books_are_closed_is_refused(make_service: Any, connect: Any) -> None:
    """A late producer is refused, as none of its events would be in the result.

    A known producer may greet again.
    """
    service = make_service()
    known, late = connect(service), connect(service, "late", greet=False)
    service.close_books()
    assert late.ask(msg.Hello(id=1, producer="late")) == msg.Error(id=1, code="refused", message="the run is over")
    assert isinstance(known.ask(msg.Hello(id=2, producer="p")), msg.Welcome)


def test_an_acknowledgement_that_was_lost_comes_again(make_service: Any, connect: Any) -> None:
    """A producer whose ring is full sends nothing new, so nothing would move any more: hello and ping bring it."""
    service = make_service()
    peer = connect(service)
    peer.send(Count("n"))
    peer.until(lambda: peer.all(msg.Ack))
    for request in (msg.Hello(id=5, producer="p"), msg.Ping(id=6, producer="p")):
        peer.heard.clear()
        peer.ask(request)
        peer.until(lambda: peer.all(msg.Ack))
        assert peer.all(msg.Ack) == [msg.Ack(epoch="e1", batches=1)]
    stranger = connect(service, "x", greet=False)
    stranger.ask(msg.Ping(id=7, producer="p"))
    stranger.ask(msg.Ping(id=8))
    assert stranger.all(msg.Ack) == [], "only its own producer is told"


def test_without_a_journal_what_is_applied_is_acknowledged(make_service: Any, connect: Any) -> None:
    """Off, or failed in mid-run: producers must not fill their rings for a disk that is full."""
    off = make_service({"journal.enabled": False})
    failed = make_service(run_id="r2")
    failed.parts.journal.failed = "No space left on device"
    for service in (off, failed):
        peer = connect(service)
        peer.send(Count("n"))
        peer.until(lambda peer=peer: peer.all(msg.Ack) == [msg.Ack(epoch="e1", batches=1)])


# --- what is missing -----------------------------------------------------------------------------


def test_a_producer_is_asked_for_what_never_came(make_service: Any, connect: Any) -> None:
    """Every gap as a range, again and again while it lives."""
    service = make_service()
    peer = connect(service)
    peer.frame([Count("n")])
    peer.send(Count("n"))
    peer.frame([Count("n")])
    peer.frame([Count("n")])
    peer.send(Count("n"))
    first, second = msg.Resend(first=0, last=0), msg.Resend(first=2, last=3)
    peer.until(lambda: peer.all(msg.Resend).count(second) >= 2)
    asked = peer.all(msg.Resend)
    assert asked[asked.index(second) - 1 :][:4] == [first, second] * 2, "before that, only the first gap was there"


def test_a_silent_producer_is_not_asked_for_ever(make_service: Any, connect: Any) -> None:
    """A producer without a sign of life is left alone after a while. It is asked again when it speaks again."""
    service = make_service()
    peer = connect(service)
    peer.frame([Count("n")])
    peer.send(Count("n"))
    peer.until(lambda: peer.all(msg.Resend))
    facts = service.parts.aggregator.book["p"]
    late_ns = int(limits.LATE_AFTER_S * 1e9)

    def asked_at(now_ns: int) -> bool:
        before = len(peer.listen())
        service.control.ask_for_missing(now_ns)
        peer.ask(msg.GetStatus(id=1_000 + before))
        return any(isinstance(item, msg.Resend) for item in peer.heard[before:])

    service.turn = lambda **_: (service.parts.hub.wait(0.01), service.control.turn())
    assert asked_at(facts.last_seen_ns + late_ns)
    assert not asked_at(facts.last_seen_ns + late_ns + 10**9)
    assert not asked_at(facts.last_seen_ns + 100 * late_ns)
    facts.last_seen_ns += 1_000 * late_ns
    assert asked_at(facts.last_seen_ns + 10**9)


def test_what_a_producer_no_longer_has_is_given_up(make_service: Any, connect: Any) -> None:
    """Batches that are given up are not asked for again. The producer's end is answered, and the journal knows."""
    service = make_service()
    peer = connect(service)
    peer.frame([Count("n")])
    peer.send(Count("n"))
    peer.until(lambda: peer.all(msg.Resend), "a question for what is missing")
    peer.end()
    peer.say(msg.CannotResend(producer="p", first=0, last=0))
    peer.until(lambda: peer.all(msg.Ended), "the answer to end")
    assert peer.all(msg.Ended) == [msg.Ended(id=9, emitted=2, received=1, missing=1)]
    (producer,) = service.snapshot().producers
    assert (producer.unrepairable_batches, producer.missing_batches) == ([(0, 0)], [])
    assert service.parts.aggregator.book.waiting_for() == []
    frames = JournalReader(service.parts.directory.journal).frames()
    notes = [decode_note(item.data) for item in frames if item.kind == NOTE]
    assert msg.CannotResend(producer="p", first=0, last=0) in notes


def test_producers_beyond_the_bound_are_refused(make_service: Any, connect: Any, monkeypatch: Any) -> None:
    """The table of peers can't grow without end."""
    monkeypatch.setattr(limits, "PRODUCERS", 2)
    service = make_service()
    connect(service)
    connect(service, "q")
    stranger = connect(service, "third", greet=False)
    answer = stranger.ask(msg.Hello(id=1, producer="third"))
    assert isinstance(answer, msg.Error)
    assert (answer.code, answer.message) == (
        "no_room",
        "the run already has 2 producers that have not ended, and accepts no more",
    )
    assert isinstance(stranger.ask(msg.Hello(id=2)), msg.Welcome), "observers are no producers"
    assert service.control.peers == 2


def test_processes_beyond_the_bound_are_not_watched(make_service: Any, connect: Any, monkeypatch: Any) -> None:
    """Each costs a descriptor."""
    monkeypatch.setattr(limits, "PROCESSES_WATCHED", 1)
    peer = connect(make_service())
    assert isinstance(peer.ask(msg.Watch(id=2, pid=os.getpid())), msg.Watching)
    answer = peer.ask(msg.Watch(id=3, pid=1))
    assert isinstance(answer, msg.Error)
    assert answer.code == "refused"


def test_every_producer_hears_the_state_at_once(make_service: Any, connect: Any) -> None:
    """One that hears DRAINING flushes and ends."""
    service = make_service()
    peers = [connect(service), connect(service, "q")]
    service.run_status.lifecycle.to("DRAINING")
    service.control.announce_state()
    for peer in peers:
        peer.until(lambda peer=peer: peer.all(msg.Pong))
        assert [one.state for one in peer.all(msg.Pong)] == ["DRAINING"]


# --- status --------------------------------------------------------------------------------------


def test_status_holds_all_that_was_applied(make_service: Any, connect: Any) -> None:
    """The status is made at the moment of the request."""
    service = make_service()
    peer = connect(service)
    peer.send(Count("n", 5.0))
    peer.applied(1)
    answer = peer.ask(msg.GetStatus(id=4))
    assert isinstance(answer, msg.Status)
    assert (answer.snapshot.state, answer.snapshot.counters[0].value) == ("LIVE", 5)


@pytest.mark.parametrize("terminal", ["COMPLETE", "INTERRUPTED"])
def test_status_of_a_run_that_is_over_is_the_result(make_service: Any, connect: Any, terminal: Any) -> None:
    """The terminal snapshot itself; on the way there, DRAINING."""
    service = make_service()
    peer = connect(service)
    service.run_status.lifecycle.to("DRAINING")
    answer = peer.ask(msg.GetStatus(id=4))
    assert isinstance(answer, msg.Status)
    assert answer.snapshot.state == "DRAINING"
    service.run_status.lifecycle.to(terminal)
    result = service.snapshot()
    answer = peer.ask(msg.GetStatus(id=5))
    assert isinstance(answer, msg.Status)
    assert answer.snapshot == result


def test_many_who_ask_at_once_get_one_snapshot(make_service: Any, connect: Any, wait_until: Any) -> None:
    """Questions can't take the loop from the events: nothing is applied between them, so one answer is for all."""
    service = make_service()
    made: list[Any] = []
    snapshot = service.control._snapshot
    service.control._snapshot = lambda: made.append(1) or snapshot()
    peer = connect(service)
    for number in range(100):
        peer.say(msg.GetStatus(id=1_000 + number))
    turns = 0

    def answered() -> bool:
        nonlocal turns
        turns += service.parts.hub.wait(0.0).control
        service.control.turn()
        return len(peer.all(msg.Status)) == 100

    wait_until(answered)
    assert len(made) <= turns + 1 < 100


def test_a_turn_takes_a_bounded_number_of_bytes(make_service: Any, connect: Any, wait_until: Any) -> None:
    """Large messages are taken a few at a time, and events get their turn in between."""
    service = make_service()
    peers = [connect(service, f"p{number}") for number in range(4)]
    taken: list[int] = []
    service.control._take = lambda _peer, data: taken.append(len(data))
    for peer in peers:
        for _ in range(5):
            peer.link._control.send(bytes(limits.MIB))
    turns: list[int] = []

    def all_taken() -> bool:
        before = len(taken)
        service.control.turn()
        turns.append(len(taken) - before)
        return len(taken) == 20

    wait_until(lambda: service.parts.hub.wait(0.2).control)
    wait_until(all_taken)
    assert max(turns) <= limits.TURN_BYTES // limits.MIB


def test_the_state_of_a_step_holds_all_that_has_arrived(make_service: Any, connect: Any) -> None:
    """The records of a closed step have numbers below `next_record`, and are in the stream when it is answered."""
    service = make_service({"run.refresh_hz": 10.0})
    peer = connect(service)

    def ask(request_id: int, step: int, axis: str = "train") -> msg.StepState:
        answer = peer.ask(msg.GetStep(id=request_id, axis=axis, step=step))
        assert isinstance(answer, msg.StepState)
        return answer

    assert ask(10, 1) == msg.StepState(id=10, state="unknown")
    peer.send(Axis("train", "last", closing="reported"), Scalars("train", 1, {"loss": 0.5, "bad": None}), Mark("m"))
    peer.ask(msg.Barrier(id=11, producer="p", batches=1))
    found = msg.StepState(id=12, state="open", values={"loss": 0.5, "bad": None}, producers=1, next_record=2)
    assert ask(12, 1) == found
    peer.hold(StepEnd("train", 1))
    stat = BackendStat(name="w", kind="jsonl", state="idle", next_record=2, refused=[1])
    peer.ask(msg.TellBackend(id=13, stat=stat))
    told = ask(14, 1)
    assert (told.state, told.next_record, told.revision) == ("closed", 3, 0)
    assert told.backends == [stat]
    assert service.parts.records.next_seq == 3
    answer = peer.ask(msg.Catchup(id=15, from_seq=2))
    assert [(item.seq, item.record.step, item.record.values) for item in answer.records] == [
        (2, 1, {"loss": 0.5, "bad": None})
    ]
    peer.send(Scalars("train", 1, {"loss": 0.25}))
    peer.ask(msg.Barrier(id=16, producer="p", batches=3))
    assert (ask(17, 1).revision, ask(18, 1).next_record) == (1, 4)
    peer.send(Scalars("train", 2, {"loss": 1.0}), StepClear("train", 2))
    peer.ask(msg.Barrier(id=19, producer="p", batches=4))
    assert (ask(20, 2).state, ask(21, 2, "none").state) == ("unknown", "unknown")
    for message in ({"type": "step", "axis": "", "step": 1}, {"type": "step", "axis": "a", "step": 1 << 63}):
        with pytest.raises(Malformed):
            decode_request(msgspec.msgpack.encode(message))


def test_a_status_after_the_state_of_a_step_has_as_many_events(
    make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of these come in one turn. The request for the step reads events that a snapshot before it lacks."""
    service = make_service({"run.refresh_hz": 0.1})
    peer = connect(service)
    control = service.control
    arrived: list[list[Scalars]] = [[], [Scalars("train", 1, {"loss": 0.5})], []]
    usual = control._catch_up

    def catch_up() -> None:
        for record in arrived.pop(0):
            peer.hold(record)
        usual()

    peer.until(peer.link._hear_subscription, "a subscription")
    monkeypatch.setattr(control, "_catch_up", catch_up)
    for request in (msg.GetStatus(id=31), msg.GetStep(id=32, axis="train", step=1), msg.GetStatus(id=33)):
        control._take(peer.name.encode(), encode_control(request))
    monkeypatch.undo()
    peer.until(lambda: any(item.id == 33 for item in peer.heard), "three answers")
    before, step, after = (next(item for item in peer.heard if item.id == number) for number in (31, 32, 33))
    assert (before.snapshot.axes, step.state) == ([], "open")
    assert [stat.open for stat in after.snapshot.axes] == [1]
