"""Sessions of a command without its sockets: their names, and what is known of them after a kill."""

from __future__ import annotations

from telemetry import limits
from telemetry.cli.beside_run.feed_sessions import SessionNumbering, sessions_in
from telemetry.wire.snapshot import CounterStat


def issued(session: str | None, name: str = "request.issued", unit: str = "requests") -> CounterStat:
    return CounterStat(name=name, unit=unit, value=1, labels={} if session is None else {"session": session})


def test_the_first_has_no_name_and_there_are_not_many() -> None:
    """One session is as it always was; too many share a name, for each makes instruments of its own."""
    number = SessionNumbering()
    names = [number() for _ in range(limits.FEED_SESSIONS + 2)]
    assert names[:3] == ["", "2", "3"]
    assert names[-3:] == [str(limits.FEED_SESSIONS), *[f"{limits.FEED_SESSIONS}+"] * 2]


def test_a_feed_that_is_started_again_goes_on_with_another_session() -> None:
    """A restarted feed numbers its session by those that the run knows.

    A feed can't tell whether its own is one that it told of before.
    """
    assert sessions_in([]) == 0
    assert sessions_in([issued(None)]) == 1
    assert sessions_in([issued(None), issued("2"), issued("odd")]) == 2
    assert sessions_in([issued("32+")]) == 32
    assert sessions_in([issued("9", name="request.completed"), issued("9", unit="")]) == 0
    assert SessionNumbering(sessions_in([issued(None)]))() == "2"
