"""Counters that a feed keeps beside what it feeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from telemetry.wire.snapshot import CounterStat

REFUSED: Final = "feed.refused"
"""Label `reason`: bytes that are no event, and events that make no sense where they stand."""
ERRORS: Final = "feed.errors"
"""Label `error`: what the other side reports that is about no request."""
UNFINISHED: Final = "feed.unfinished"
"""Senders that were heard of, and went or were left without the word that nothing more comes."""
UNCOUNTED: Final = "feed.uncounted"
"""Label `reason`, one of the three below: completed requests whose output tokens nobody can count."""
NO_TOKENIZER: Final = "no_tokenizer"
TOOL_CALLS: Final = "tool_calls"
NO_TEXT: Final = "no_text"
INTERRUPTED: Final = "feed.interrupted"
"""Label SESSION where there are several: sessions of which the other side says that they were interrupted."""
SESSION: Final = "session"
"""Label of what belongs to the second or a later session of a command."""


def interruption(counters: Iterable[CounterStat]) -> str:
    """Return a line about the sessions that were interrupted; empty if none was."""
    found = [stat.labels.get(SESSION, "1") for stat in counters if stat.name == INTERRUPTED and stat.value]
    if found in ([], ["1"]):
        return "the benchmark was interrupted" if found else ""
    sessions, were = ("session", "was") if len(found) == 1 else ("sessions", "were")
    return f"{sessions} {', '.join(found)} of the benchmark {were} interrupted"
