"""The sum of several histories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.unit.judge.merge.conftest import LATENCY, LOAD, REQUESTS, SECOND, MakeRun

from telemetry.errors import RunDirectoryError
from telemetry.judge.merge import gather, history
from telemetry.judge.merge.history import add_histories
from telemetry.store.history import HistoryReader, HistoryWriter
from telemetry.store.intervals.levels import segments
from telemetry.testing.builders import WALL_NS
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns

SERIES = ("latency", ())


def values(columns: ValueColumns) -> dict[int, float]:
    index = np.frombuffer(columns.index, "<u4").tolist()
    return dict(zip(index, np.frombuffer(columns.value, "<f8").tolist(), strict=True))


def test_seconds_are_added(make_run: MakeRun, tmp_path: Path) -> None:
    """Values and increases add up, gauges have the value that came last; progress goes to the end."""
    one = make_run("a", {0: [1.0, 2.0], 1: [3, 4], 2: [5, 6]})
    two = make_run("b", {1: [10], 2: [7]}, start_s=1.25, definitions=[LOAD, REQUESTS, LATENCY])
    shares: list[float] = []
    added = add_histories(gather([one, two]), tmp_path / "h", ["50"], lambda _, share: shares.append(share))
    first, second = HistoryReader(tmp_path / "h").intervals()
    assert (values(first.counters), values(second.counters)) == ({0: 3.0}, {0: 14.0})
    assert (values(first.gauges), values(second.gauges)) == ({0: 5.0}, {0: 7.0})
    assert [(at.start_ns - WALL_NS, at.end_ns - WALL_NS) for at in (first, second)] == [
        (0, SECOND),
        (SECOND, 2 * SECOND),
    ]
    assert (added.figures[SERIES].count, added.figures[SERIES].min, added.figures[SERIES].max) == (2, 1.0, 2.0)
    assert added.counts == [{SERIES: 2}, {SERIES: 0}]
    assert added.written
    assert shares == sorted(shares)
    assert 0.8 < shares[-1] <= 1.0


def test_one_without_a_history_leaves_all_without(make_run: MakeRun, tmp_path: Path) -> None:
    """A history of some of the values would look like that of all; what the others have is still added."""
    runs = [make_run("a", {0: [1.0]}), make_run("b", {0: [2.0]}), make_run("c", {0: [3.0]}, history=False)]
    added = add_histories(gather(runs), tmp_path / "h", ["50"])
    assert not added.written
    assert not (tmp_path / "h").exists()
    assert added.figures[SERIES].count == 2
    assert [len(counts) for counts in added.counts] == [1, 1, 0]


def test_runs_of_other_days_are_kept(make_run: MakeRun, tmp_path: Path) -> None:
    """The merged history keeps the seconds of runs of other days and has roll-ups of them.

    The time between the runs has no intervals.
    """
    runs = [make_run(f"r{day}", {0: [1.0, 2.0]}, start_s=86_400.0 * day) for day in range(3)]
    add_histories(gather(runs), tmp_path / "h", ["50"])
    reader = HistoryReader(tmp_path / "h")
    assert len(list(reader.intervals(level_s=1))) == 6
    assert len(list(reader.intervals(level_s=60))) == 3
    assert sum(at.end_ns - at.start_ns for at in reader.intervals()) == 6 * SECOND


def test_a_history_that_contradicts_itself_is_known(make_run: MakeRun, tmp_path: Path) -> None:
    """A history whose slots hold less than its count is marked with -1. Its values are unknown."""
    one, two = make_run("a", {0: [1.0]}), make_run("b", {0: [2.0]})
    writer = HistoryWriter(two[0].history, resume=True)
    wide = np.array([1], "<u8").tobytes()
    value = np.array([1.0], "<f8").tobytes()
    index = np.array([0], "<u4").tobytes()
    forged = SeriesColumns(index, wide, value, value, value, np.array([0], "<u4").tobytes(), b"", b"")
    writer.append(Interval(WALL_NS + SECOND, WALL_NS + 2 * SECOND, forged))
    writer.close()
    assert add_histories(gather([one, two]), tmp_path / "h", ["50"]).counts == [{SERIES: 1}, {SERIES: -1}]


def test_a_disk_that_refuses_is_told(make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a history is none."""

    class Full(HistoryWriter):
        def append(self, *_: object) -> None:
            self.failed = "No space left on device"

    monkeypatch.setattr(history, "HistoryWriter", Full)
    with pytest.raises(RunDirectoryError, match="can't write the merged history: No space left"):
        add_histories(gather([make_run("a", {0: [1.0]}), make_run("b", {})]), tmp_path / "h", ["50"])


def test_a_history_of_strangers_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    """A history with an index without a key is refused, and the error names the run."""
    one, two = make_run("a", {0: [1.0]}), make_run("b", {0: [2.0]})
    keys = two[0].history / "keys.jsonl"
    keys.write_bytes(keys.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(RunDirectoryError, match=r"-b/history is damaged: .* does not define series 0"):
        add_histories(gather([one, two]), tmp_path / "h", ["50"])


def test_torn_ends_are_missing_values(make_run: MakeRun, tmp_path: Path) -> None:
    """Values of a torn segment end are missing from the counts."""
    one, two = make_run("a", {0: [1.0]}), make_run("b", {0: [2.0, 3.0]})
    for segment in segments(two[0].history):
        if segment.level == 1:
            segment.path.write_bytes(segment.path.read_bytes()[:-1])
    assert add_histories(gather([one, two]), tmp_path / "h", ["50"]).counts == [{SERIES: 1}, {SERIES: 1}]
