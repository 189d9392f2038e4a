"""The export is a log that HdrHistogram's own reader understands, and its intervals sum to the histogram."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections import defaultdict
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from telemetry.errors import RunDirectoryError
from telemetry.limits import MIB
from telemetry.store.history import HistoryWriter
from telemetry.store.interval_log import HIGHEST_TICKS, export_hlog, series_id, tag
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, SeriesColumns

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND + 123_456_000
KEYS = [
    SeriesKey(index=0, name="latency", kind="series", unit="ms", labels={"op": "read, all", "zone": "a=b"}),
    SeriesKey(index=1, name="latency", kind="series", unit="ms", labels={"op": "write"}),
    SeriesKey(index=0, name="not a series", kind="counter"),
    SeriesKey(index=2, name="größe {x}", kind="series", unit="B", digits=1),
    SeriesKey(index=3, name="fine", kind="series", digits=4),
    SeriesKey(index=4, name="quiet", kind="series"),
]
DIGITS = {key.index: key.digits for key in KEYS if key.kind == "series"}
Ticks = dict[int, list[int]]


def interval(at: int, ticks: Ticks) -> Interval:
    """One second with these values, the library's own arithmetic choosing the slots."""
    columns: dict[str, list[float]] = defaultdict(list)
    for index, recorded in sorted(ticks.items()):
        histogram = HdrHistogram(1, HIGHEST_TICKS, DIGITS[index])
        cells: dict[int, int] = defaultdict(int)
        for value in recorded:
            cells[histogram.get_counts_array_index(value)] += 1
        row = (index, len(recorded), sum(recorded), min(recorded), max(recorded), len(cells))
        for name, value in zip(("index", "count", "total", "min", "max", "occupied"), row, strict=True):
            columns[name].append(value)
        columns["slots"] += sorted(cells)
        columns["counts"] += [cells[slot] for slot in sorted(cells)]
    kinds = {"count": "<u8", "total": "<f8", "min": "<f8", "max": "<f8"}
    data = {name: np.array(found, kinds.get(name, "<u4")).tobytes() for name, found in columns.items()}
    return Interval(START + at * SECOND, START + (at + 1) * SECOND, SeriesColumns(**data))


def history(directory: Path, seconds: list[Ticks], retention: dict[int, float | None] | None = None) -> None:
    writer = HistoryWriter(directory, retention or {1: None, 10: None, 60: None})
    for at, ticks in enumerate(seconds):
        writer.append(interval(at, ticks), KEYS)
    writer.close()


def read_back(path: Path) -> dict[str, list[HdrHistogram]]:
    """Every interval, by its tag."""
    reader = HistogramLogReader(str(path), HdrHistogram(1, HIGHEST_TICKS, 3))
    found: dict[str, list[HdrHistogram]] = defaultdict(list)
    while (histogram := reader.get_next_interval_histogram()) is not None:
        found[histogram.get_tag()].append(histogram)
    reader.input_file.close()
    return found


def random_seconds(count: int) -> list[Ticks]:
    chance = random.Random(5)
    extremes = [0, 1, 2047, 2048, HIGHEST_TICKS]
    return [
        {
            index: [int(chance.lognormvariate(14, 3)) for _ in range(30)] + chance.sample(extremes, 2)
            for index in chance.sample([0, 1, 2, 3], chance.randint(0, 4))
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    ("retention", "level_s"),
    [
        (None, 10),
        pytest.param(None, 0, marks=pytest.mark.slow),
        pytest.param({1: 60, 10: 60, 60: None}, 0, marks=pytest.mark.slow),
    ],
)
def test_summed_intervals_are_the_final_histogram(
    tmp_path: Path, retention: dict[int, float | None] | None, level_s: int
) -> None:
    """Every series is found by its tag, and its intervals add up to the whole run, bucket by bucket."""
    seconds = random_seconds(200)
    history(tmp_path / "history", seconds, retention)
    lines = export_hlog(tmp_path / "history", tmp_path / "out.hlog", level_s)
    found = read_back(tmp_path / "out.hlog")
    assert sum(map(len, found.values())) == lines
    assert set(found) == {tag(key) for key in KEYS if key.kind == "series" and key.name != "quiet"}
    for key in KEYS:
        if tag(key) not in found:
            continue
        final = HdrHistogram(1, HIGHEST_TICKS, key.digits)
        summed = HdrHistogram(1, HIGHEST_TICKS, key.digits)
        for ticks in seconds:
            for value in ticks.get(key.index, []):
                assert final.record_value(value)
        for histogram in found[tag(key)]:
            summed.add(histogram)
        assert np.array_equal(np.frombuffer(summed.counts, "u8"), np.frombuffer(final.counts, "u8"))
        assert summed.get_total_count() == final.get_total_count()
        assert summed.get_max_value() == final.get_max_value()
        assert summed.encode() == final.encode()


def test_times_and_extremes_of_a_line(tmp_path: Path) -> None:
    """A line says when, how long, and the maximum in the series' unit; the reader gives absolute times."""
    history(tmp_path / "history", [{}, {}, {1: [5, 7_000]}])
    assert export_hlog(tmp_path / "history", tmp_path / "out.hlog") == 1
    lines = (tmp_path / "out.hlog").read_text().splitlines()
    assert lines[0] == "#[Histogram log format version 1.3]"
    assert "#[StartTime: 1700000000.123456 (seconds since epoch), 2023-11-14T22:13:20.123+00:00]" in lines
    assert lines[-1].startswith(f"Tag={tag(KEYS[1])},2.000000,1.000000,7000.000000,HISTFAAA")
    (histogram,) = read_back(tmp_path / "out.hlog")[tag(KEYS[1])]
    assert histogram.get_start_time_stamp() == pytest.approx((START + 2 * SECOND) / 1e6)
    assert histogram.get_end_time_stamp() == pytest.approx((START + 3 * SECOND) / 1e6)


def test_a_part_of_the_run(tmp_path: Path) -> None:
    """The log of a part has only the intervals that overlap it, and begins with the first of them."""
    history(tmp_path / "history", [{0: [second + 1]} for second in range(10)])
    out = tmp_path / "out.hlog"
    part = {"start_ns": START + 3 * SECOND, "end_ns": START + 5 * SECOND}
    assert export_hlog(tmp_path / "history", out, **part) == 2
    assert [found.get_max_value() for found in read_back(out)[tag(KEYS[0])]] == [4, 5]
    assert out.read_text().splitlines()[-2].startswith(f"Tag={tag(KEYS[0])},0.000000,1.000000,")


def test_a_comment_maps_each_tag(tmp_path: Path) -> None:
    """Tags hold no comma, space or line break, and a comment says in JSON what each stands for."""
    history(tmp_path / "history", [{0: [1]}])
    export_hlog(tmp_path / "history", tmp_path / "out.hlog")
    comments = [line for line in (tmp_path / "out.hlog").read_text().splitlines() if line.startswith("#[Series: ")]
    facts = [json.loads(line.removeprefix("#[Series: ").removesuffix("]")) for line in comments]
    assert [fact["tag"] for fact in facts] == [tag(key) for key in KEYS if key.kind == "series"]
    assert facts[0]["labels"] == {"op": "read, all", "zone": "a=b"}
    assert facts[0]["unit"] == "ms"
    assert unquote(tag(KEYS[1])) == "latency{op=write}"
    for fact in facts:
        assert not set(fact["tag"]) & set(", \n=")


def test_ids_of_distinct_series_are_distinct() -> None:
    """Braces, commas and equals signs inside names don't make two series look alike."""
    series = [
        ("a", {}),
        ("a", {"b": "c"}),
        ("a{b=c}", {}),
        ("a", {"b": "c,d=e"}),
        ("a", {"b": "c", "d": "e"}),
        ("a%7Bb%3Dc%7D", {}),
        ("a", {"b": ""}),
    ]
    assert len({series_id(name, labels) for name, labels in series}) == len(series)
    assert series_id("a", {"z": "1", "b": "2"}) == "a{b=2,z=1}"


def test_a_clock_set_back_leaves_no_line_out(tmp_path: Path) -> None:
    """Times before the first interval are written as its start: the reader skips negative ones."""
    writer = HistoryWriter(tmp_path / "history")
    for at in (5, 6, 2):
        writer.append(interval(at, {0: [1]}), KEYS)
    writer.close()
    assert export_hlog(tmp_path / "history", tmp_path / "out.hlog") == 3
    assert len(read_back(tmp_path / "out.hlog")[tag(KEYS[0])]) == 3


def test_a_run_directory_and_an_empty_history(tmp_path: Path) -> None:
    """A run is exported by its directory object; without intervals the log has only its head."""
    run = RunDirectory.create(tmp_path, "run", "abc", START)
    history(run.history, [])
    assert export_hlog(run, run.hlog) == 0
    assert not read_back(run.hlog)


def test_errors_are_one_clear_line(tmp_path: Path) -> None:
    """The error names the reason: no history, an unwritable target or an undefined series."""
    with pytest.raises(RunDirectoryError, match="no history"):
        export_hlog(tmp_path / "none", tmp_path / "out.hlog")
    history(tmp_path / "history", [{0: [1]}])
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="can't write"):
        export_hlog(tmp_path / "history", tmp_path / "file" / "out.hlog")
    (tmp_path / "history" / "keys.jsonl").write_bytes(b'{"schema_version":1}\n')
    with pytest.raises(RunDirectoryError, match="does not define series 0"):
        export_hlog(tmp_path / "history", tmp_path / "out.hlog")
    assert not (tmp_path / "out.hlog").exists()


def test_memory_is_that_of_one_histogram_of_each_precision(tmp_path: Path) -> None:
    """However many series and seconds there are: 39 MB for five digits, and about as much again to encode it."""
    keys = [
        SeriesKey(index=at, name=str(at), kind="series", digits=digits) for at, digits in enumerate((3, 4, 5, 5))
    ]
    last = [HdrHistogram(1, HIGHEST_TICKS, key.digits).counts_len - 1 for key in keys]
    ones = np.ones(len(keys))
    columns = SeriesColumns(
        index=np.arange(len(keys), dtype="<u4").tobytes(),
        count=ones.astype("<u8").tobytes(),
        **{name: ones.astype("<f8").tobytes() for name in ("total", "min", "max")},
        occupied=ones.astype("<u4").tobytes(),
        slots=np.array(last, "<u4").tobytes(),
        counts=ones.astype("<u4").tobytes(),
    )
    writer = HistoryWriter(tmp_path / "history", {1: None, 10: None, 60: None})
    for at in range(2):
        writer.append(Interval(START + at * SECOND, START + (at + 1) * SECOND, columns), keys)
    writer.close()
    tracemalloc.start()
    try:
        assert export_hlog(tmp_path / "history", tmp_path / "out.hlog") == 2 * len(keys)
        assert tracemalloc.get_traced_memory()[1] < 96 * MIB
    finally:
        tracemalloc.stop()
