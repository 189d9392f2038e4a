"""Times as people write them, and which of them go together."""

from __future__ import annotations

import math

import pytest

from telemetry.errors import UsageError
from telemetry.history.time_range import TimeRangeChoice, parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("30s", 30.0),
        ("1.5s", 1.5),
        ("5m", 300.0),
        ("5min", 300.0),
        ("1h", 3_600.0),
        ("250ms", 0.25),
        (" .5 s ", 0.5),
        ("+10s", 10.0),
        ("-10s", -10.0),
    ],
)
def test_a_time_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    """Seconds where there is no unit."""
    assert parse_time(text) == pytest.approx(seconds)


def test_nothing_before_the_end_is_the_end() -> None:
    """`-0s` keeps its sign, which is what tells it from the start."""
    assert math.copysign(1.0, parse_time("-0s")) == -1.0


@pytest.mark.parametrize("text", ["", "s", "10 parsecs", "1e3", "nan", "inf", "--1", "1,5s", "1:30", "٣s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """The error for a text that is no time shows the ways to write one."""
    with pytest.raises(UsageError, match="30s, 5m, 1h"):
        parse_time(text)


def test_a_part_is_chosen_one_way() -> None:
    """Two ways to look for it contradict each other; no number is no time."""
    with pytest.raises(UsageError, match="can't be combined"):
        TimeRangeChoice(trim_warmup=True, steady=True)
    with pytest.raises(UsageError, match="is not a time of a run"):
        TimeRangeChoice(from_s=math.nan)
    assert TimeRangeChoice().whole
    assert not TimeRangeChoice(from_s=0.0).whole
