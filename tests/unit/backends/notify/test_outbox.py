"""Notifications wait for each receiver by itself."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from telemetry import limits
from telemetry.backends.notify.backend import NotifyOutbox, WaitingMessages
from telemetry.backends.notify.message import Message


@dataclass
class Fake:
    """A receiver with a fault at the place of the network."""

    label: str
    reason: str = ""
    got: list[str] = field(default_factory=list)
    tries: int = 0

    def send(self, message: Message) -> str:
        self.tries += 1
        if not self.reason:
            self.got.append(message.key)
        return self.reason


def message(key: object) -> Message:
    return Message(key=str(key), event="error", title="t", body="b", look="info", time_ns=0)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def outbox(*receivers: Fake, waiting: WaitingMessages | None = None, clock: Clock | None = None) -> NotifyOutbox:
    return NotifyOutbox(receivers, waiting or WaitingMessages(), clock=clock or Clock(), chance=lambda: 0.0)


def test_a_receiver_that_is_down_delays_no_other() -> None:
    """A receiver that is down gets all messages later, in order. The trouble names it without secrets."""
    good, bad, clock = Fake("a://***"), Fake("b://***", "connection refused"), Clock()
    box = outbox(good, bad, clock=clock)
    for key in range(3):
        box.add(message(key))
        box.send()
    assert good.got == ["0", "1", "2"]
    assert box.trouble == "3 notifications not delivered to b://***: connection refused"
    bad.reason = ""
    clock.now_s = 1_000.0
    box.send()
    assert bad.got == ["0", "1", "2"]
    assert (box.trouble, box.is_empty) == ("", True)


def test_tries_have_pauses() -> None:
    """A receiver that is down is asked less and less often, except at the end."""
    bad, clock = Fake("b://***", "no"), Clock()
    box = outbox(bad, clock=clock)
    box.add(message(1))
    for _ in range(600):
        box.send()
        clock.now_s += 1.0
    assert 10 < bad.tries < 40
    before = bad.tries
    box.send()
    box.send(at_once=True)
    assert bad.tries == before + 1


def test_a_repeated_notification_is_sent_once() -> None:
    """Items are delivered again after a failure, also to another process."""
    good = Fake("a://***")
    box = outbox(good)
    box.add(message(1))
    box.send()
    box.add(message(1))
    again = msgspec.json.decode(msgspec.json.encode(box.waiting()), type=WaitingMessages)
    other = outbox(good, waiting=again)
    other.add(message(1))
    other.send()
    assert good.got == ["1"]


def test_another_process_sends_the_rest() -> None:
    """Another process sends the waiting messages to the receivers that lack them."""
    good, bad = Fake("a://***"), Fake("b://***", "no")
    box = outbox(good, bad)
    box.add(message(1))
    box.send()
    bad.reason = ""
    waiting = msgspec.json.decode(msgspec.json.encode(box.waiting()), type=WaitingMessages)
    outbox(good, bad, waiting=waiting).send()
    assert (good.got, bad.got) == (["1"], ["1"])
    third = Fake("c://***")
    outbox(third, waiting=waiting).send()  # the receivers have changed
    assert third.got == ["1"]


def test_what_waits_is_bounded() -> None:
    """The oldest is dropped and counted."""
    bad = Fake("b://***", "no")
    box = outbox(bad)
    for key in range(limits.NOTIFY_WAITING + 7):
        box.add(message(key))
    assert box.dropped == 7
    bad.reason = ""
    box.send(at_once=True)
    assert bad.got[0] == "7"
    assert len(bad.got) == limits.NOTIFY_WAITING
