"""Events after the end of a producer: their number, and the line about them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from telemetry.client.late_events import LateEvents


@pytest.mark.parametrize(
    ("reason", "number", "line"),
    [
        ("", 1, "1 event was recorded after finish() and is not in the result"),
        ("", 2, "2 events were recorded after finish() and are not in the result"),
        ("can't reach ipc:///x", 1, "1 event was lost: can't reach ipc:///x"),
        ("can't reach ipc:///x", 2, "2 events were lost: can't reach ipc:///x"),
    ],
)
def test_the_line_says_how_many_and_why(said: Callable[[], list[str]], reason: str, number: int, line: str) -> None:
    """One line gives the number and the reason. The next line is about later events."""
    late = LateEvents()
    late.reason = reason
    late.hit_many(number)
    late.warn()
    late.warn()
    assert said() == [f"telemetry: {line}"]


def test_without_late_events_there_is_no_line(said: Callable[[], list[str]]) -> None:
    """Nor about those that somebody took."""
    late = LateEvents()
    late.warn()
    late.hit()
    assert late.take() == 1
    late.warn()
    assert said() == []


def test_rows_of_one_call_count_one_by_one() -> None:
    """A span or a request records several at once."""
    late = LateEvents()
    late.hit_rows((0.0, 1, 2.0))
    late.hit_rows((0.0, 1, 2.0, 1.0, 1, 3.0))
    assert late.total == 3


def test_it_is_known_whether_events_came_since_an_end() -> None:
    """Late events of an earlier producer, or those that were printed, say nothing about this one."""
    late = LateEvents()
    late.hit()
    late.note_end()
    assert not late.came_since_end()
    late.take()
    assert not late.came_since_end()
    late.hit()
    assert late.came_since_end()
    late.note_end()
    assert not late.came_since_end()
