"""Fuzz targets for the messages that another program publishes, as a feed takes them."""

from __future__ import annotations

from typing import Any, Final, cast

from tests.fuzz.msgpack_form import Msgpack
from tests.fuzz.target import Target
from tests.unit.integrations.endpoints import bus

from telemetry import limits
from telemetry.client import Run
from telemetry.integrations.endpoints import decode, translate
from telemetry.integrations.endpoints.decode import Event, ModelOutput, Prompt, data_of
from telemetry.integrations.endpoints.translate import EndpointsFeed
from telemetry.integrations.feeds import FeedOptions

_LATEST: Final = (1 << 63) - 1


class Nobody:
    """A run and its requests, which check what they are told."""

    def requests(self, name: str, **options: str | None) -> Nobody:
        return self

    def issue(self, *, at_ns: int, turn: int | None, input_tokens: int | None, **more: Any) -> Nobody:
        assert input_tokens is None or 0 <= input_tokens < 1 << 32
        assert turn is None or isinstance(turn, int)
        self._told(at_ns, *more.values())
        return self

    def find(self, key: str) -> Nobody:
        assert len(key) <= limits.FEED_ID_CHARS
        return self

    def first(self, tokens: None, *, at_ns: int) -> None:
        self._told(at_ns)

    chunk = first

    def complete(self, *, at_ns: int, output_tokens: int | None, **more: Any) -> None:
        assert output_tokens in (None, 0)
        self._told(at_ns, *more.values())

    def fail(self, reason: str, at_ns: int) -> None:
        self._told(at_ns, reason)

    def mark(self, text: str, at_ns: int = 0) -> None:
        assert text.isprintable()
        assert len(text) <= limits.TEXT_CHARS
        self._told(at_ns, text)

    def enter(self, window: str) -> None:
        assert window in ("", translate.WINDOW)

    def counter(self, name: str, **labels: str) -> Nobody:
        assert all(len(value) <= limits.LABEL_VALUE_CHARS for value in labels.values())
        return self

    def add(self, amount: int) -> None:
        assert amount == 1

    def _told(self, at_ns: int, *texts: str | None) -> None:
        assert 0 <= at_ns <= _LATEST
        assert all(text is None or text.encode() is not None for text in texts)


def run_feed(data: bytes) -> int:
    """Every message is taken; what is read obeys the bounds."""
    for found in decode.decode(data):
        if isinstance(found, Event):
            carried = data_of(found)
            if isinstance(carried, Prompt):
                assert (carried.tokens or 0) <= len(data)
            elif isinstance(carried, ModelOutput):
                assert len(carried.text) <= len(data)
    feed = EndpointsFeed(cast(Run, Nobody()), FeedOptions(say=_said))
    feed.take(data)
    feed.take(data)
    feed.close()
    return 1


def _said(line: str) -> None:
    assert line.isprintable()


def _seeds() -> list[bytes]:
    events = [
        bus.event(decode.STARTED, 1),
        bus.event(decode.TRACKING_BEGINS, 2),
        bus.event(decode.ISSUED, 3, "a" * 32, bus.prompt("hello"), conversation="c", turn=1),
        bus.event(decode.ISSUED, 3, "b", bus.prompt(ids=[1, 2, 300])),
        bus.event(decode.FIRST, 4, "a" * 32),
        bus.event(decode.CHUNK, 5, "a" * 32, worker_id=1),
        bus.event(decode.COMPLETE, 6, "a" * 32, ["TextModelOutput", ["x", "y"], "why", None], finish_reason="stop"),
        bus.event(
            decode.COMPLETE, 6, "c", ["TextModelOutput", "", None, [{"id": "d"}]], finish_reason="tool_calls"
        ),
        bus.event("error.client", 7, "b", bus.error("ReadTimeout", "60 s")),
        bus.event("error.session", 7, "", bus.error("Gone")),
        bus.event(decode.COMPLETE, 8, "b"),
        bus.event(decode.TRACKING_ENDS, 9),
        bus.event(decode.ENDED, 10),
    ]
    alone = [bus.topic("sample.issued") + event for event in events]
    return [*alone, bus.batch(events), bus.batch(events[:3]), bus.batch([])]


TARGETS: Final = (
    Target(
        name="feed",
        run=run_feed,
        form=Msgpack(decode.TOPIC_BYTES),
        seeds=_seeds,
        covers=(decode, translate),
        head=decode.BATCH + b"\x91\xc4",
        bytes_each=400,
    ),
)
