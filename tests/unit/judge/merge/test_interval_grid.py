"""Every interval is in one cell, whole; cells are in order and leave each other alone."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.judge.merge.history import SECOND_NS, MergeCell, cells, placed
from telemetry.wire.history import Interval


def steps(start_s: float, lengths_s: Sequence[float]) -> list[Interval]:
    """Intervals one after the other."""
    found = []
    for length_s in lengths_s:
        found.append(Interval(round(start_s * 1e9), round((start_s + length_s) * 1e9)))
        start_s += length_s
    return found


def grid(*histories: list[Interval], origin_s: int = 100) -> list[MergeCell]:
    streams = [placed(history, owner, origin_s * SECOND_NS, 0) for owner, history in enumerate(histories)]
    return list(cells(streams))


def shape(found: list[MergeCell]) -> list[tuple[int, float, float, int]]:
    """(second, start, end, members) of each."""
    return [(cell.second, cell.start_ns / 1e9, cell.end_ns / 1e9, len(cell.members)) for cell in found]


def test_seconds_of_two_runs_meet() -> None:
    """Each second has one interval of each run, wherever in it that begins, and is a second long."""
    for offset_s in (0.0, 0.25, 0.4999, 0.5, 0.75):
        found = grid(steps(100.0, [1.0] * 3), steps(101 + offset_s, [1.0] * 3))
        first = 1 if offset_s < 0.5 else 2
        members = [1 + (first <= second < first + 3) for second in range(3)] + [1] * first
        assert shape(found) == [(at, at, at + 1, members[at]) for at in range(3 + first)]


def test_seconds_that_jitter_stay_apart() -> None:
    """A run whose seconds end half a second after those of another has one in each, be they late or early."""
    early_and_late = [1.0, 1.02, 0.97, 1.01, 1.0, 0.98, 1.02]
    found = grid(steps(100.0, [1.0] * 8), steps(100.5, early_and_late))
    assert [len(cell.members) for cell in found] == [1, *[2] * 7]


def test_what_is_left_at_the_end_is_short() -> None:
    """The last interval of a run is no whole second, and a gap between runs is in no cell."""
    found = grid(steps(100.0, [1.0, 0.3]), steps(200.0, [1.0]))
    assert shape(found) == [(0, 0, 1, 1), (1, 1, 1.3, 1), (100, 100, 101, 1)]


def test_where_one_history_is_coarse_cells_are_wide() -> None:
    """Ten seconds of one run and the seconds of the other in that time come together."""
    coarse = steps(100.0, [60.0, 10.0, 10.0, *([1.0] * 3)])
    found = grid(coarse, steps(140.0, [1.0] * 43))
    assert shape(found) == [
        (0, 0, 60, 21),
        (60, 60, 70, 11),
        (70, 70, 80, 11),
        (80, 80, 81, 2),
        (81, 81, 82, 2),
        (82, 82, 83, 2),
    ]


def test_members_come_in_the_order_in_which_they_ended() -> None:
    """Members of a cell are in the order of their ends, so the last value of a gauge is the newest."""
    (cell,) = grid(steps(100.3, [0.6]), steps(100.0, [0.7]))
    assert [member.owner for member in cell.members] == [1, 0]


def test_a_clock_that_was_set_back_keeps_the_order() -> None:
    """An interval after a clock was set back is placed no earlier than the interval before."""
    found = grid([Interval(105 * SECOND_NS, 106 * SECOND_NS), Interval(90 * SECOND_NS, 91 * SECOND_NS)])
    assert shape(found) == [(5, 5, 6, 2)]


def test_a_run_can_be_moved() -> None:
    """All of its intervals by the same."""
    (cell,) = cells([placed(steps(130.0, [1.0]), 0, 100 * SECOND_NS, -27 * SECOND_NS)])
    assert (cell.second, cell.start_ns) == (3, 3 * SECOND_NS)


lengths = st.lists(st.sampled_from([0.0, 0.01, 0.98, 1.0, 1.03, 3.0, 10.0, 60.0]), max_size=30)
histories = st.lists(st.builds(steps, st.floats(0, 300), lengths), min_size=1, max_size=4)
moments = st.integers(-(1 << 63), (1 << 64) - 1)
nonsense = st.lists(st.lists(st.builds(Interval, moments, moments), max_size=6), max_size=3)


@settings(max_examples=min(50, settings().max_examples))
@given(histories | nonsense, st.integers(0, 400))
def test_nothing_is_lost_and_nothing_overlaps(drawn: list[list[Interval]], origin_s: int) -> None:
    """Cells keep every interval and don't overlap. Clocks may do anything and histories may be coarse."""
    found = grid(*drawn, origin_s=origin_s)
    seen: dict[int, list[int]] = {}
    end_ns = 0
    second = -1
    for cell in found:
        assert cell.second > second
        assert cell.second * SECOND_NS <= cell.start_ns < cell.end_ns
        assert cell.start_ns >= end_ns
        second, end_ns = cell.second, cell.end_ns
        for member in cell.members:
            seen.setdefault(member.owner, []).append(member.number)
    assert {owner: sorted(numbers) for owner, numbers in seen.items()} == {
        owner: list(range(len(history))) for owner, history in enumerate(drawn) if history
    }
