"""Facts about feeds that several parts share: the counters of a feed about its input, and its percentiles."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from telemetry.wire.snapshot import CounterStat

REFUSED: Final = "feed.refused"
"""Counter with the label `reason`: unreadable input, and events that are invalid in their context."""
ERRORS: Final = "feed.errors"
"""Counter with the label `error`: errors that the other side reports for no particular request."""
SESSIONS: Final = "feed.sessions"
"""Counter of sessions of which a feed received something."""
LATE: Final = "feed.late"
"""Counter of sessions that had begun before the feed listened."""
ENDED: Final = "feed.ended"
"""Counter of sessions whose end message arrived. A feed that is killed can't count a missing end; this can be."""
UNCOUNTED: Final = "feed.uncounted"
"""Counter with the label `reason` (one of the three below): completed requests with unknown output tokens."""
NO_TOKENIZER: Final = "no_tokenizer"
TOOL_CALLS: Final = "tool_calls"
NO_TEXT: Final = "no_text"
INTERRUPTED: Final = "feed.interrupted"
"""Counter of sessions that the other side reports as interrupted; label SESSION if there are several."""
_INTERRUPTION: Final = re.compile(r"(the benchmark was|sessions? .* of the benchmark (was|were)) interrupted(;|$)")
SESSION: Final = "session"
"""Label of data of the second or a later session of a command."""
ENDPOINTS_PERCENTILES: Final = ("99.9", "99", "97", "95", "90", "80", "75", "50", "25", "10", "5", "1")
"""Percentiles that an endpoints benchmark reports."""


def interruption(counters: Iterable[CounterStat]) -> str:
    """Return a line about interrupted sessions; empty if no session was interrupted."""
    session_names = [stat.labels.get(SESSION, "1") for stat in counters if stat.name == INTERRUPTED and stat.value]
    if session_names in ([], ["1"]):
        return "the benchmark was interrupted" if session_names else ""
    sessions, were = ("session", "was") if len(session_names) == 1 else ("sessions", "were")
    return f"{sessions} {', '.join(session_names)} of the benchmark {were} interrupted"


def tells_interruption(reason: str) -> bool:
    """Return whether the reason of a run's end begins with a line of `interruption`."""
    return _INTERRUPTION.match(reason) is not None


def missing_messages(counters: Iterable[CounterStat]) -> list[str]:
    """Return which sessions lack messages: those without an end, and those that began before their feed.

    Empty if feeds received every session from its beginning to its end.
    """
    totals = dict.fromkeys((SESSIONS, LATE, ENDED), 0)
    for stat in counters:
        if stat.name in totals:
            totals[stat.name] += int(stat.value)
    sessions, late, ended = totals.values()
    of_all = f"of {sessions:,} feed session{'' if sessions == 1 else 's'}"
    problems = [f"{sessions - ended:,} {of_all} sent no end message"] if sessions > ended else []
    return [*problems, f"{late:,} {of_all} began before the feed"] if late else problems
