"""Lines about sessions of feeds: interrupted ones, and those without a beginning or an end."""

from __future__ import annotations

import pytest

from telemetry.wire.feeds import (
    ENDED,
    INTERRUPTED,
    LATE,
    SESSIONS,
    interruption,
    missing_messages,
    tells_interruption,
)
from telemetry.wire.snapshot import CounterStat


@pytest.mark.parametrize(
    ("sessions", "said"),
    [
        ([], ""),
        ([""], "the benchmark was interrupted"),
        (["2"], "session 2 of the benchmark was interrupted"),
        (["", "3"], "sessions 1, 3 of the benchmark were interrupted"),
    ],
)
def test_sessions_are_named_where_there_are_several(sessions: list[str], said: str) -> None:
    """Counters of other things, and those that were never raised, say nothing."""
    others = [CounterStat(name="feed.refused", value=3), CounterStat(name=INTERRUPTED, value=0)]
    found = [CounterStat(name=INTERRUPTED, value=1, labels={"session": one} if one else {}) for one in sessions]
    assert interruption([*others, *found]) == said
    assert tells_interruption(f"{said}; stopped") == bool(said)


@pytest.mark.parametrize("reason", ["", "interrupted by SIGINT", "the benchmark was interrupted twice"])
def test_other_reasons_tell_no_interruption(reason: str) -> None:
    """A run that a signal interrupted has no orderly end."""
    assert not tells_interruption(reason)


@pytest.mark.parametrize(
    ("sessions", "late", "ended", "lacks"),
    [
        (0, 0, 0, []),
        (3, 0, 3, []),
        (1, 0, 0, ["1 of 1 feed session sent no end message"]),
        (3, 0, 1, ["2 of 3 feed sessions sent no end message"]),
        (2, 1, 2, ["1 of 2 feed sessions began before the feed"]),
        (2, 1, 1, ["1 of 2 feed sessions sent no end message", "1 of 2 feed sessions began before the feed"]),
    ],
)
def test_sessions_that_lack_messages(sessions: int, late: int, ended: int, lacks: list[str]) -> None:
    """A session is whole if a feed received its first message and its last."""
    values = {SESSIONS: sessions, LATE: late, ENDED: ended, "feed.refused": 5}
    assert missing_messages(CounterStat(name=name, value=value) for name, value in values.items()) == lacks
