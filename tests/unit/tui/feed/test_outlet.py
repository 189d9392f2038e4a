"""News pass while somebody listens."""

from __future__ import annotations

from typing import Any

from telemetry.tui.feed.news import Note
from telemetry.tui.feed.outlet import NewsChannel


def test_news_pass_between_open_and_close(told: Any) -> None:
    """What threads say before or afterwards is heard by nobody."""
    outlet = NewsChannel()
    outlet.tell(Note("early"))
    outlet.open(told)
    outlet.tell(Note("now"))
    outlet.close()
    outlet.tell(Note("late"))
    assert told.news == [Note("now")]
