"""Names of the counters that a feed keeps about its input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from telemetry.wire.snapshot import CounterStat

REFUSED: Final = "feed.refused"
"""Counter with the label `reason`: unreadable input, and events that are invalid in their context."""
ERRORS: Final = "feed.errors"
"""Counter with the label `error`: errors that the other side reports for no particular request."""
UNFINISHED: Final = "feed.unfinished"
"""Counter of senders that disconnected or were given up before they sent their end message."""
UNCOUNTED: Final = "feed.uncounted"
"""Counter with the label `reason` (one of the three below): completed requests with unknown output tokens."""
NO_TOKENIZER: Final = "no_tokenizer"
TOOL_CALLS: Final = "tool_calls"
NO_TEXT: Final = "no_text"
INTERRUPTED: Final = "feed.interrupted"
"""Counter of sessions that the other side reports as interrupted; label SESSION if there are several."""
SESSION: Final = "session"
"""Label of data of the second or a later session of a command."""


def interruption(counters: Iterable[CounterStat]) -> str:
    """Return a line about interrupted sessions; empty if no session was interrupted."""
    found = [stat.labels.get(SESSION, "1") for stat in counters if stat.name == INTERRUPTED and stat.value]
    if found in ([], ["1"]):
        return "the benchmark was interrupted" if found else ""
    sessions, were = ("session", "was") if len(found) == 1 else ("sessions", "were")
    return f"{sessions} {', '.join(found)} of the benchmark {were} interrupted"
