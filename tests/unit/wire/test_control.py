"""Control: message types, defaults and what is tolerated."""

from __future__ import annotations

import typing

import msgspec
import pytest

from telemetry import limits
from telemetry.wire import codec, control


def decode_request(message: dict[str, object]) -> control.Request:
    return codec.decode_request(msgspec.msgpack.encode(message))


def types_of(union: object) -> list[str]:
    return [kind.__struct_config__.tag for kind in typing.get_args(union)]


def test_types_are_those_of_the_protocol() -> None:
    """Types are words of the wire: never renamed, never used again."""
    assert types_of(control.Request) == [
        "hello", "ping", "end", "cannot_resend", "barrier", "status", "history", "catchup", "stop", "watch",
        "backend", "step", "nodes", "members", "found",
    ]  # fmt: skip
    assert types_of(control.Response) == [
        "welcome", "pong", "ack", "resend", "ended", "barrier_reached", "status", "history", "caught_up",
        "stopping", "watching", "noted", "step_state", "members", "search", "error",
    ]  # fmt: skip


def test_an_observer_says_hello_with_a_type_alone() -> None:
    """Everything but the type has a default."""
    assert decode_request({"type": "hello"}) == control.Hello()


def test_pushed_messages_carry_no_id() -> None:
    """Id 0 tells a push from an answer."""
    assert (control.Ack, control.Resend, control.Search) == control.PUSHED
    assert control.Ack(epoch="e", batches=1).id == 0


def test_keys_that_came_later_are_ignored() -> None:
    """A message of a later minor version is read as far as we know it."""
    assert decode_request({"type": "ping", "id": 5, "mood": {"good": [1, 2]}}) == control.Ping(id=5)


def test_a_later_error_code_is_read() -> None:
    """An error must reach its reader, whatever its code."""
    data = msgspec.msgpack.encode({"type": "error", "id": 1, "code": "tired", "message": "later"})
    assert codec.decode_response(data) == control.Error(id=1, code="tired", message="later")


@pytest.mark.parametrize(
    "message",
    [
        {"type": "dance"},
        {"type": 5},
        {},
        {"type": "end", "producer": "", "batches": 0, "emitted": 0},
        {"type": "end", "producer": "p" * (limits.PRODUCER_ID_CHARS + 1), "batches": 0, "emitted": 0},
        {"type": "end", "producer": "p", "batches": -1, "emitted": 0},
        {"type": "end", "producer": "p", "batches": 0, "emitted": 0, "dropped": {"": 1}},
        {"type": "end", "producer": "p", "batches": 0, "emitted": 0, "dropped": {"r" * 65: 1}},
        {"type": "hello", "name": "n" * (limits.NAME_CHARS + 1)},
        {"type": "watch", "pid": 0},
    ],
    ids=lambda message: repr(message)[:50],
)
def test_requests_beyond_the_rules_are_malformed(message: dict[str, object]) -> None:
    """The aggregator answers these with an error."""
    with pytest.raises(codec.Malformed) as caught:
        decode_request(message)
    assert caught.value.reason == "frame_unreadable"


@pytest.mark.parametrize("pid", [-1, 1 << 31, 1 << 40])
@pytest.mark.parametrize("kind", ["hello", "watch"])
def test_a_pid_is_one_the_system_can_be_asked_for(kind: str, pid: int) -> None:
    """A pid is one that the system can be asked for, so that a look for it gives no `OverflowError`."""
    with pytest.raises(codec.Malformed):
        decode_request({"type": kind, "pid": pid})
