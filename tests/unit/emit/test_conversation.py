"""The protocol from the producer's side, over a link without sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry import limits
from telemetry.emit import records
from telemetry.emit.conversation import Conversation
from telemetry.errors import ProtocolError
from telemetry.wire import rows
from telemetry.wire.control import Ack, End, Ended, Error, Hello, Ping, Pong, Request, Resend, Response, Welcome

WELCOME = Welcome(
    id=1, run_id="r", name="job", epoch="e1", state="LIVE", events="ipc:///ev", snapshots="ipc:///sn", records=""
)
Make = Callable[..., Conversation]


def greet(request: Request) -> list[Response]:
    return [WELCOME] if isinstance(request, Hello) else []


def of(kind: type, messages: list[Any]) -> list[Any]:
    return [message for message in messages if isinstance(message, kind)]


@pytest.fixture
def make(link: Any, desk: Any) -> Make:
    def made(**options: Any) -> Conversation:
        return Conversation(
            link, desk.outbox, Hello(producer="p1", name="job"), "ipc:///ctl", clock=desk.clock, **options
        )

    return made


@pytest.fixture
def talk(make: Make, link: Any) -> Conversation:
    """A conversation that has been welcomed."""
    link.answer = greet
    made = make()
    made.step()
    made.step()
    assert made.welcome is not None
    return made


def send_all(talk: Conversation) -> None:
    while talk.flush():
        pass


def test_nothing_is_sent_before_the_welcome(make: Make, desk: Any, link: Any) -> None:
    """Hello is repeated every two seconds until it is answered, then events go where the welcome says."""
    talk = make()
    desk.fill(3)
    for _ in range(5):
        talk.step()
        assert talk.flush() is False
        desk.clock.advance(1.0)
    assert len(of(Hello, link.asked)) == 3
    assert link.frames == []
    link.inbox = [WELCOME]
    talk.step()
    talk.flush()
    assert link.events_address == "ipc:///ev"
    assert len(link.frames) == 1


def test_who_waits_is_told_of_the_welcome(make: Make, link: Any) -> None:
    """`start` waits on another thread."""
    told: list[str] = []
    link.answer = greet
    talk = make(on_welcome=lambda: told.append("welcome"))
    talk.step()
    talk.step()
    assert told == ["welcome"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Error(id=1, code="refused", message="too many"), "too many"),
        (replace(WELCOME, version=(2, 0)), "same major version"),
    ],
)
def test_a_refusal_ends_it(make: Make, link: Any, answer: Response, message: str) -> None:
    """There is no point in asking again."""
    link.answer = lambda request: [answer]
    talk = make()
    talk.step()
    talk.step()
    assert isinstance(talk.refused, ProtocolError)
    assert message in str(talk.refused)


def test_a_ping_goes_out_every_second(talk: Conversation, desk: Any, link: Any) -> None:
    """Also when there is nothing to send: silence would be called late."""
    link.asked.clear()
    for _ in range(10):
        desk.clock.advance(0.25)
        talk.step()
    assert len(of(Ping, link.asked)) == 2
    assert of(Ping, link.asked)[0].producer == "p1"


def test_one_batch_at_a_time_while_full_ones_wait(talk: Conversation, desk: Any, link: Any) -> None:
    """True means: come again at once."""
    desk.fill(2 * limits.BATCH_EVENTS + 10)
    assert [talk.flush(), talk.flush()] == [True, False]
    assert [rows.row_count(batch.rows) for batch in link.batches] == [limits.BATCH_EVENTS] * 2
    assert talk.flush() is False
    assert rows.row_count(link.batches[2].rows) == 10
    assert [batch.seq for batch in link.batches] == [0, 1, 2]


def test_a_full_pipe_keeps_the_batch_at_the_head(talk: Conversation, desk: Any, link: Any) -> None:
    """It is packed once and sent first when there is room."""
    link.room = 0
    desk.fill(5)
    talk.flush()
    desk.fill(3, first=5)
    talk.flush()
    assert not talk.all_sent
    link.room = 9
    talk.flush()
    talk.flush()
    assert [(batch.seq, rows.row_count(batch.rows)) for batch in link.batches] == [(0, 5), (1, 3)]
    assert talk.all_sent


def test_an_acknowledged_batch_is_forgotten(talk: Conversation, desk: Any, link: Any) -> None:
    """With the definitions it carried."""
    desk.definitions.append(records.mark("d", {}, 0))
    for _ in range(3):
        desk.fill(1)
        talk.flush()
    assert [len(batch.records) for batch in link.batches] == [1, 1, 1]
    link.inbox = [Ack(epoch="e1", batches=2)]
    talk.step()
    assert talk.ring.kept() == [2]
    desk.fill(1)
    talk.flush()
    assert len(link.batches[3].records) == 0


def test_a_resend_is_answered_from_the_ring(talk: Conversation, desk: Any, link: Any) -> None:
    """Byte for byte; asked twice, sent once; what is gone is gone."""
    for _ in range(4):
        desk.fill(1)
        talk.flush()
    sent = list(link.frames)
    link.inbox = [Ack(epoch="e1", batches=1), Resend(first=0, last=2), Resend(first=2, last=1 << 62)]
    talk.step()
    assert not talk.all_sent
    talk.flush()
    assert link.frames == [*sent, sent[1], sent[2], sent[3]]
    assert talk.all_sent


def test_a_resend_waits_for_room(talk: Conversation, desk: Any, link: Any) -> None:
    """And goes before newer batches."""
    for _ in range(3):
        desk.fill(1)
        talk.flush()
    link.inbox = [Resend(first=0, last=2)]
    talk.step()
    link.room = 1
    desk.fill(1)
    talk.flush()
    link.room = 9
    send_all(talk)
    assert [batch.seq for batch in link.batches] == [0, 1, 2, 0, 1, 2, 3]


def test_what_fell_out_of_the_ring_cannot_be_sent_again(make: Make, desk: Any, link: Any) -> None:
    """It is counted."""
    link.answer = greet
    talk = make(ring_bytes=150)
    talk.step()
    talk.step()
    for _ in range(5):
        desk.fill(1)
        talk.flush()
    assert talk.ring.fallen == 3
    link.inbox = [Resend(first=0, last=4)]
    talk.step()
    send_all(talk)
    assert [batch.seq for batch in link.batches][5:] == [3, 4]


@pytest.mark.parametrize("sign", [Pong(epoch="e2", state="LIVE"), Ack(epoch="e2", batches=1)])
def test_another_epoch_is_another_aggregator(talk: Conversation, desk: Any, link: Any, sign: Response) -> None:
    """It hears hello, then all definitions, then what it may have missed, then what is new."""
    desk.definitions.append(records.mark("d", {}, 0))
    for _ in range(3):
        desk.fill(1)
        talk.flush()
    link.inbox = [Ack(epoch="e1", batches=1)]
    talk.step()
    link.asked.clear()
    link.answer = lambda request: [replace(WELCOME, epoch="e2")] if isinstance(request, Hello) else []
    link.inbox = [sign]
    talk.step()
    assert len(of(Hello, link.asked)) == 1
    desk.fill(1)
    assert talk.flush() is False
    talk.step()
    send_all(talk)
    assert [(batch.seq, len(batch.records)) for batch in link.batches[3:]] == [(3, 1), (1, 1), (2, 1)]


def test_another_aggregators_acknowledgement_frees_nothing(talk: Conversation, desk: Any, link: Any) -> None:
    """What it speaks of is not on the disk of the one that answers now."""
    desk.fill(3)
    talk.flush()
    link.inbox = [Ack(epoch="e0", batches=1)]
    talk.step()
    assert len(talk.ring) == 1


def test_a_batch_that_waits_at_the_head_goes_to_the_new_aggregator_first(
    talk: Conversation, desk: Any, link: Any
) -> None:
    """Nothing that was packed is packed again."""
    desk.fill(1)
    talk.flush()
    link.room = 0
    desk.fill(1)
    talk.flush()
    link.answer = lambda request: [replace(WELCOME, epoch="e2")] if isinstance(request, Hello) else []
    link.inbox = [Pong(epoch="e2", state="LIVE")]
    talk.step()
    talk.step()
    link.room = 9
    send_all(talk)
    talk.flush()
    assert sorted(batch.seq for batch in link.batches) == [0, 0, 1]


def test_the_end_names_all_that_was_emitted(talk: Conversation, desk: Any, link: Any) -> None:
    """Repeated until it is answered."""
    desk.fill(3)
    desk.recorders.record(0.0)("text")
    desk.outbox.settle()
    talk.flush()
    talk.say_end()
    talk.step()
    expected = End(id=3, producer="p1", batches=1, emitted=4, dropped={"not_a_number": 1})
    assert of(End, link.asked) == [expected]
    desk.clock.advance(2.5)
    talk.step()
    assert len(of(End, link.asked)) == 2
    link.inbox = [Ended(id=3, emitted=4, received=3, missing=0)]
    talk.step()
    desk.clock.advance(2.5)
    talk.step()
    assert talk.ended == Ended(id=3, emitted=4, received=3, missing=0)
    assert len(of(End, link.asked)) == 2


def test_a_batch_that_never_left_is_counted_as_unsent(talk: Conversation, desk: Any, link: Any) -> None:
    """And is not sent any more after the end was said."""
    link.room = 0
    desk.fill(3)
    talk.flush()
    desk.fill(2)
    talk.say_end()
    talk.step()
    link.room = 9
    talk.flush()
    [end] = of(End, link.asked)
    assert (end.batches, end.emitted, end.dropped) == (0, 5, {"unsent_at_exit": 5})
    assert link.frames == []


def test_resends_are_answered_while_the_end_waits(talk: Conversation, desk: Any, link: Any) -> None:
    """That is what the aggregator waits for."""
    desk.fill(3)
    talk.flush()
    talk.say_end()
    link.inbox = [Resend(first=0, last=0)]
    talk.step()
    talk.flush()
    assert [batch.seq for batch in link.batches] == [0, 0]
