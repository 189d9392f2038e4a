"""What is said of sessions that were interrupted."""

from __future__ import annotations

import pytest

from telemetry.wire.feeds import INTERRUPTED, interruption
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
