"""The numbers of one series."""

from __future__ import annotations

from tests.unit.tui.model.scenes import series, texts

from telemetry.history.intervals.figures import Figures
from telemetry.tui.model.series import FactColumn, table, warnings

NOW = FactColumn(
    "last 10 s",
    Figures(seconds=10, count=41_650, rate=4_165.0, percentiles={"50": 1.87, "99": 6.41, "99.9": 14.9}),
    chosen=True,
)
RUN = FactColumn(
    "run",
    Figures(count=112_500, rate=4_320.0, total=200_250.0, min=0.265, max=88.0,
            percentiles={"50": 1.83, "99": 5.67, "99.9": 18.3}),
    1.65,
)  # fmt: skip


def test_one_below_the_other_in_a_narrow_pane() -> None:
    """The window beside the run, with a dash for what of a window is not known."""
    assert texts(table([NOW, RUN], None, "ms", "readable", 30)) == [
        "        last 10 s       run",
        "count      41,650   112,500",
        "rate     4.17 k/s  4.32 k/s",
        "mean            –   1.78 ms",
        "stddev          –   1.65 ms",
        "min             –    265 µs",
        "p50       1.87 ms   1.83 ms",
        "p99       6.41 ms   5.67 ms",
        "p99.9     14.9 ms   18.3 ms",
        "max             –   88.0 ms",
    ]


def test_beside_each_other_on_a_wide_screen() -> None:
    """Two lines under a line of titles."""
    assert texts(table([NOW, RUN], None, "ms", "readable", 120)) == [
        "             count      rate     mean   stddev     min      p50      p99    p99.9      max",
        "last 10 s   41,650  4.17 k/s        –        –       –  1.87 ms  6.41 ms  14.9 ms        –",
        "run        112,500  4.32 k/s  1.78 ms  1.65 ms  265 µs  1.83 ms  5.67 ms  18.3 ms  88.0 ms",
    ]


def test_with_a_baseline() -> None:
    """The difference of the chosen time range from it; counts and extremes of other lengths are not compared."""
    base = FactColumn("baseline", RUN.figures, 1.65)
    assert texts(table([NOW, RUN], base, "ms", "readable", 60)) == [
        "        last 10 s       run  baseline       Δ",
        "count      41,650   112,500   112,500",
        "rate     4.17 k/s  4.32 k/s  4.32 k/s  -3.6 %",
        "mean            –   1.78 ms   1.78 ms",
        "stddev          –   1.65 ms   1.65 ms",
        "min             –    265 µs    265 µs",
        "p50       1.87 ms   1.83 ms   1.83 ms  +2.2 %",
        "p99       6.41 ms   5.67 ms   5.67 ms   +13 %",
        "p99.9     14.9 ms   18.3 ms   18.3 ms   -19 %",
        "max             –   88.0 ms   88.0 ms",
    ]


def test_a_pane_may_be_narrower_than_the_table() -> None:
    """A table of facts is cut if its pane is narrower."""
    assert all(len(line) <= 16 for line in texts(table([NOW, RUN], None, "ms", "readable", 16)))


def test_large_counts_are_shortened() -> None:
    """Unless numbers are raw."""
    many = FactColumn("run", Figures(count=123_456_789))
    assert texts(table([many], None, "", "readable", 20))[1] == "count   123 M"
    assert texts(table([many], None, "", "raw", 20))[1] == "count   123,456,789"


def said(count: int, **changes: object) -> list[str]:
    percentiles = {"50": 1.0, "99": 2.0, "99.9": 3.0, "100": 4.0}
    return list(warnings(series(**changes), Figures(count=count, percentiles=percentiles), "last 10 s"))


def test_percentiles_of_few_values_are_pointed_out() -> None:
    """Fewer than ten values beyond: the first such percentile is named with how many it rests on."""
    assert said(100_000) == []
    assert said(5_000) == ["p99.9 rests on few values: 5 of 5,000 values lie beyond p99.9"]
    assert said(300) == ["p99 and higher rest on few values: 3 of 300 values lie beyond p99"]
    assert said(100)[0] == "p99 and higher rest on few values: 1 of 100 values lies beyond p99"
    assert said(1) == ["p50 is the greatest of 1 value"]
    assert said(0) == ["no values in the last 10 s"]


def test_values_outside_the_range_are_pointed_out() -> None:
    """Values outside the range are pointed out, with what that means for the percentiles."""
    assert said(100_000, above=12) == ["12 above the range; percentiles have no error bound"]
    assert said(100_000, below=3, imprecise=1) == ["3 below the range, 1 beyond 2^53, rounded"]
