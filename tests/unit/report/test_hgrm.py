"""Percentile distributions as HdrHistogram's own library prints them."""

from __future__ import annotations

import io
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.iterators import PercentileIterator
from tests.golden.report.renderings import stored_report

from telemetry.history import RecordedRun
from telemetry.history.intervals.histograms import Digest, Histograms
from telemetry.report.hgrm import digests, distribution, render_hgrm, result_distribution
from telemetry.statistics.hdr.layout import Layout
from telemetry.store.interval_log import HIGHEST_TICKS
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.control import SeriesKey
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

ROW = re.compile(r" *(\d+\.\d+) (\d\.\d{12}) +(\d+)(?: +(\d+\.\d\d))?")
"""What plotters take for a row."""


def plotted(text: str) -> list[tuple[float, float]]:
    """(1/(1-percentile), value) as the plotter of HdrHistogram finds them: four numbers in a line without a `#`."""
    points = []
    for line in text.split("\n"):
        words = line.split()
        if len(words) == 4 and not line.strip().startswith("#") and words[0] != "Value":
            points.append((float(words[3]), float(words[0])))
    return points


def digest(ticks: list[int], digits: int = 3, unit: str = "ms", per_unit: float = 1e6) -> Digest:
    slots, counts = np.unique(Layout.of(digits).slot_of(np.array(ticks, dtype=np.int64)), return_counts=True)
    values = [tick / per_unit for tick in ticks]
    histogram = Histograms(
        digits=np.array([digits]),
        ticks_per_unit=np.array([per_unit]),
        seconds=np.array([1.0]),
        count=np.array([len(ticks)]),
        total=np.array([math.fsum(values)]),
        min=np.array([min(values, default=math.inf)]),
        max=np.array([max(values, default=-math.inf)]),
        ends=np.array([slots.size]),
        slots=slots.astype(np.int64),
        counts=counts.astype(np.int64),
    )
    key = SeriesKey(index=0, name="latency", kind="series", unit=unit, digits=digits, ticks_per_unit=per_unit)
    return Digest(key, 0, 0, histogram)


def as_in_java(iterator: PercentileIterator) -> None:
    """The steps of the original and of all its tools; the library's own are not whole halvings."""
    gap = 100.0 - iterator.percentile_to_iterate_to
    iterator.percentile_to_iterate_from = iterator.percentile_to_iterate_to
    if gap:
        half_distance = int(math.pow(2, int(math.log(100.0 / gap) / math.log(2)) + 1))
        iterator.percentile_to_iterate_to += 100.0 / (iterator.percentile_ticks_per_half_distance * half_distance)


def oracle(ticks: list[int], digits: int, per_unit: float) -> list[str]:
    histogram = HdrHistogram(1, HIGHEST_TICKS, digits)
    for tick in ticks:
        histogram.record_value(tick)
    out = io.BytesIO()
    histogram.output_percentile_distribution(out, per_unit)
    return out.getvalue().decode().splitlines()


@pytest.mark.parametrize("digits", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 10, 3_000])
def test_rows_are_those_of_the_library(digits: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Value by value, level by level and count by count; but no value is above the highest or below the lowest."""
    monkeypatch.setattr(PercentileIterator, "increment_iteration_level", as_in_java)
    source = random.Random(size)
    ticks = [int(source.lognormvariate(14, 2)) + 1 for _ in range(size)]
    made = distribution(digest(ticks, digits)).splitlines()
    told = oracle(ticks, digits, 1e6)
    assert made[1:3] == told[:2]
    ours, theirs = [[found for line in lines if (found := ROW.fullmatch(line))] for lines in (made, told)]
    assert [row.groups()[1:] for row in ours] == [row.groups()[1:] for row in theirs]
    least, most = min(ticks) / 1e6, max(ticks) / 1e6
    for own, other in zip(ours, theirs, strict=True):
        places = len(other[1].partition(".")[2])
        assert float(own[1]) == pytest.approx(min(max(float(other[1]), least), most), abs=10.0**-places)


def test_the_footer_tells_the_values_themselves() -> None:
    """Mean, deviation, extremes, their number, and the shape of the buckets."""
    source = random.Random(1)
    ticks = [int(source.gammavariate(2, 1e6)) + 1_000 for _ in range(5_000)]
    footer = distribution(digest(ticks)).splitlines()[-3:]
    numbers = [[float(found) for found in re.findall(r"= +([\d.]+)", line)] for line in footer]
    assert [re.sub(r" *[\d.]+", "", line) for line in footer] == [
        "#[Mean    =, StdDeviation   =]",
        "#[Max     =, Total count    =]",
        "#[Buckets =, SubBuckets     =]",
    ]
    assert numbers[0] == pytest.approx([np.mean(ticks) / 1e6, np.std(ticks) / 1e6], rel=1e-3)
    assert numbers[1] == pytest.approx([max(ticks) / 1e6, 5_000])
    library = HdrHistogram(1, HIGHEST_TICKS, 3)
    assert numbers[2] == [library.bucket_count, library.sub_bucket_count]


def test_a_better_known_deviation_is_taken() -> None:
    """A result knows it from the values, a histogram only from buckets."""
    assert "StdDeviation   =    12.500000]" in distribution(digest([1_000, 2_000]), 12.5)


def test_plotters_find_every_row_but_the_last() -> None:
    """The title and the footer are comments to them, and 100 % has no place on their axis."""
    points = plotted(distribution(digest(list(range(1, 2_001)), per_unit=1.0, unit="")))
    assert points[0] == (1.0, 1.0)
    assert points == sorted(points)
    assert (2.0, 1_000.0) in points
    assert (10.0, 1_800.0) in points


def test_a_series_without_values_has_no_rows() -> None:
    """A series without values has no rows, but everything else."""
    for text in (distribution(digest([])), result_distribution(SeriesStat(name="s"))):
        assert ROW.search("\n".join(text.splitlines()[1:4])) is None
        assert "Total count    =            0]" in text


def test_a_result_alone_has_its_percentiles() -> None:
    """A result without a history lists its percentiles with their ranks.

    A percentile with an unknown name is left out.
    """
    stat = SeriesStat(
        name="s\n",
        unit="ms",
        count=1_000,
        min=1.0,
        max=9.0,
        percentiles={"99.9": 8.0, "50": 2.0, "x": 1.0, "100": 9.0},
    )
    lines = result_distribution(stat).splitlines()
    assert lines[0] == "#[Series  = s\\n, Unit = ms]"
    assert [found.groups() for line in lines if (found := ROW.fullmatch(line))] == [
        ("1.000000", "0.000000000000", "1", "1.00"),
        ("2.000000", "0.500000000000", "500", "2.00"),
        ("8.000000", "0.999000000000", "999", "1000.00"),
        ("9.000000", "1.000000000000", "1000", None),
    ]


def test_a_report_is_a_section_for_each_series() -> None:
    """The sections of the report are in the order of its series."""
    titles = re.findall(r"^#\[Series  = (.*), Unit", render_hgrm(stored_report()), re.MULTILINE)
    assert titles[:2] == ["latency{route=/search,status=200}", "first_byte"]
    assert len(titles) == 4


def test_without_a_history_there_are_no_digests(tmp_path: Path) -> None:
    """`digests` returns nothing, and raises no error, if the run has no history."""
    report = Report(snapshot=MetricsSnapshot(run_id="r", name="n"), source="file")
    directory = RunDirectory.create(tmp_path, "job", "aaaa1111", 10**18)
    assert digests(RecordedRun(report, directory), [SeriesStat(name="s")], None) == {}
