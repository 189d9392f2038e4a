"""News pass while somebody listens."""

from __future__ import annotations

from typing import Any

from telemetry.tui.feed.news import NewsChannel, ViewerNote


def test_news_pass_between_open_and_close(told: Any) -> None:
    """News pass between `open` and `close`, and those that threads send before or afterwards do not."""
    outlet = NewsChannel()
    outlet.tell(ViewerNote("early"))
    outlet.open(told)
    outlet.tell(ViewerNote("now"))
    outlet.close()
    outlet.tell(ViewerNote("late"))
    assert told.news == [ViewerNote("now")]
