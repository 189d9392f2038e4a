"""A notification, and the text that all of them share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct

from telemetry.common import formatting
from telemetry.common.formatting import printable
from telemetry.config.schema import EventName
from telemetry.history.headlines import compact, headline
from telemetry.redaction import mask_text
from telemetry.wire.snapshot import MetricsSnapshot

Look = Literal["info", "success", "warning", "failure"]
"""How a receiver shows a notification: its colour or its symbol."""
TITLE_CHARS: Final = 150
TEXT_CHARS: Final = 500
"""Of one text of the user."""
BODY_CHARS: Final = 1_500
_FIGURES: Final = 6
_LATE_S: Final = 60.0


class Message(Struct, frozen=True, kw_only=True):
    """A notification. Both texts are plain: they mean the same as Markdown, HTML or text."""

    key: str
    """Permanent name in the run. A repeated notification has the same key."""
    event: EventName
    title: str
    body: str
    look: Look
    time_ns: int

    def body_at(self, now_ns: int) -> str:
        """Return the body, with the time of the event if it is long ago."""
        if now_ns - self.time_ns < _LATE_S * 1e9:
            return self.body
        return f"{self.body}\nsent late: it happened at {formatting.timestamp(self.time_ns)}"


def message(key: str, event: EventName, title: str, lines: Iterable[str], *, look: Look, time_ns: int) -> Message:
    """Return a notification with its texts shortened."""
    body = "\n".join(line for line in lines if line)
    return Message(
        key=key,
        event=event,
        title=shortened(title, TITLE_CHARS),
        body=shortened(body, BODY_CHARS),
        look=look,
        time_ns=time_ns,
    )


def shortened(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def external(text: str, chars: int = TEXT_CHARS) -> str:
    """Return a text of the user in one line, without secrets, and so that no receiver calls people by it."""
    plain = printable(" ".join(mask_text(text, chars + 1).split())).replace("@", "@\u200b")
    return shortened(plain, chars)


def figures(snapshot: MetricsSnapshot | None, *, recent: bool) -> list[str]:
    """Return the figures that are shown first: `24.1 req/s`, `latency p99 134 ms`. Empty if nothing is known."""
    heads = headline(snapshot, recent=recent) if snapshot is not None else []
    return [printable(compact(figure, heads[0])) for figure in heads[0].figures[:_FIGURES]] if heads else []


def line(parts: Iterable[str]) -> str:
    """Return the parts in one line, without empty ones."""
    return " · ".join(part for part in parts if part)
