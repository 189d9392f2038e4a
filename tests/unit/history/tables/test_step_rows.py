"""Steps as rows in files."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from telemetry.errors import RunDirectoryError, UsageError
from telemetry.history.step_curves import StepValues
from telemetry.history.tables.step_rows import StepRow, rows, write_steps
from telemetry.wire.events import Spread

WALL_NS = 1_772_366_400_123_456_789
STEPS = [
    StepValues("train", 0, WALL_NS, {"loss": 2.5, "=1+1": None}, {}),
    StepValues("train", 1, WALL_NS + 10**9, {"loss": 0.1}, {"loss": Spread(4, 0.05, 0.2, 0.1, "p", "q")}),
    StepValues("eval", -3, 1 << 64, {"acc,\n": math.inf}, {}),
]


def test_each_value_is_a_row() -> None:
    """Each value has the spread of its producers, and a single producer is its own extremes.

    A value that is no number is not finite.
    """
    found = list(rows(STEPS))
    assert found[0] == StepRow("train", 0, WALL_NS, "loss", 2.5, 2.5, 2.5, 1)
    assert found[1] == StepRow("train", 0, WALL_NS, "=1+1", None, None, None, 1)
    assert found[2] == StepRow("train", 1, WALL_NS + 10**9, "loss", 0.1, 0.05, 0.2, 4)
    assert found[3] == StepRow("eval", -3, (1 << 63) - 1, "acc,\n", None, None, None, 1)


def test_csv_opens_in_a_spreadsheet(tmp_path: Path) -> None:
    """Names are text, not formulas, and no line breaks."""
    assert write_steps(iter(STEPS), tmp_path / "s.csv") == 4
    with (tmp_path / "s.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["axis", "step", "time", "name", "value", "low", "high", "producers"]
    assert [row["name"] for row in found] == ["loss", "'=1+1", "loss", r"acc,\n"]
    assert found[0]["time"] == "2026-03-01T12:00:00.123456789Z"
    assert (found[1]["value"], found[2]["low"], found[2]["producers"]) == ("", "0.05", "4")
    assert float(found[0]["value"]) == 2.5


def test_lines_are_strict_json(tmp_path: Path) -> None:
    """Null for what is not finite."""
    write_steps(iter(STEPS), tmp_path / "s.jsonl")
    found = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert found[2] == {
        "axis": "train",
        "step": 1,
        "time": "2026-03-01T12:00:01.123456789Z",
        "name": "loss",
        "value": 0.1,
        "low": 0.05,
        "high": 0.2,
        "producers": 4,
    }
    assert found[3]["value"] is None


@pytest.mark.sdk
def test_parquet_has_types(tmp_path: Path) -> None:
    """Times are timestamps, values floats; also for a run without steps."""
    import pyarrow.parquet

    assert write_steps(iter(STEPS), tmp_path / "s.parquet") == 4
    table: Any = pyarrow.parquet.read_table(tmp_path / "s.parquet")
    assert table.column("value").to_pylist() == [2.5, None, 0.1, None]
    assert table.column("step").to_pylist() == [0, 0, 1, -3]
    first = table.column("time")[0].as_py()
    assert first.replace(microsecond=0, nanosecond=0) == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert write_steps(iter(()), tmp_path / "empty.parquet") == 0
    assert pyarrow.parquet.read_table(tmp_path / "empty.parquet").num_rows == 0


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """An error in the middle leaves what was there."""

    def broken() -> Iterator[StepValues]:
        yield STEPS[0]
        raise RunDirectoryError("gone")

    target = tmp_path / "s.csv"
    target.write_text("old")
    with pytest.raises(RunDirectoryError, match="gone"):
        write_steps(broken(), target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["s.csv"]


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    """The error lists the suffixes that exist, and a missing folder is reported."""
    with pytest.raises(UsageError, match=r"use one of \.csv, \.jsonl, \.parquet"):
        write_steps(iter(STEPS), tmp_path / "s.xlsx")
    with pytest.raises(RunDirectoryError, match="can't write"):
        write_steps(iter(STEPS), tmp_path / "no" / "s.csv")
