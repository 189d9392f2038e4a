"""Steps that people count in, and a point of each series for every one of them."""

from __future__ import annotations

import pytest

from telemetry.errors import UsageError
from telemetry.history import over_time
from telemetry.history.interval_sums import RangeTotals
from telemetry.history.over_time import OverTime, busiest, check_points, check_step, shown, step_for
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat


@pytest.mark.parametrize(
    ("seconds", "step_s"),
    [
        (0.0, 1),
        (30.0, 1),
        (61.0, 1),
        (65.0, 2),
        (300.0, 5),
        (3_600.2, 60),
        (3_720.0, 120),
        (86_400.0, 1_800),
        (1e9, 86_400),
    ],
)
def test_about_sixty_steps(seconds: float, step_s: float) -> None:
    """A history's hour is a few milliseconds longer than an hour, and has steps of a minute all the same."""
    assert step_for(seconds) == step_s


def test_few_percentiles_are_shown() -> None:
    """The percentiles are those that people look at, or else the first of those that exist."""
    assert shown(["50", "75", "90", "95", "99", "99.9", "99.99"]) == ["50", "90", "99", "99.9"]
    assert shown(["1", "2", "3", "4", "5"]) == ["1", "2", "3", "4"]
    assert shown([]) == []


def test_what_a_report_has_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is refused with the step that would do, which then does."""
    monkeypatch.setattr(over_time, "POINTS", 1_000)
    with pytest.raises(UsageError, match="steps of 60 s give 60 points for each of 100 series") as caught:
        check_points(60.0, 100, 60.0)
    assert "360 s" in str(caught.value)
    check_points(3_600 / 360, 100, 360.0)
    check_step(0.5)
    with pytest.raises(UsageError, match="is too short"):
        check_step(0.0)


def test_the_busiest_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep their order; of equal ones the first are taken."""
    stats = [SeriesStat(name=name, count=count) for name, count in (("a", 1), ("b", 9), ("c", 5), ("d", 5))]
    assert busiest(stats, 60.0) == stats
    monkeypatch.setattr(over_time, "OWN_POINTS", 120)
    assert [stat.name for stat in busiest(stats, 60.0)] == ["b", "c"]
    assert busiest(stats, 1_000.0) == []


def test_windows_of_nothing_make_no_series() -> None:
    """A series that never had values is not over time."""
    gathered = OverTime([SeriesStat(name="a")], MetricsSnapshot(run_id="r", name="n"))
    gathered.add(RangeTotals(start_s=0.0, end_s=1.0, seconds=1.0))
    assert gathered.series() == []
