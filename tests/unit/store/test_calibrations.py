"""Calibrations on disk: one file a name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from telemetry.errors import RunDirectoryError, RunNotFoundError
from telemetry.store.calibrations import (
    Calibration,
    MetricNoise,
    calibration_path,
    find_calibration,
    list_calibrations,
    read_calibration,
    write_calibration,
)

NOISE = MetricNoise(
    of="series",
    statistic="p99",
    name="latency",
    labels={"route": "/a"},
    unit="ms",
    values=[1.0, 3.0],
    mean=2.0,
    cv=0.7,
    detectable={"10": 0.9},
)
CALIBRATION = Calibration(name="my bench", argv=["x"], host="h", created_ns=5, runs=2, metrics=[NOISE])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Under the name it was given, whatever characters that has; with a version."""
    path = write_calibration(tmp_path, CALIBRATION)
    assert path == tmp_path / "calibrations" / "my-bench.json" == calibration_path(tmp_path, "my bench")
    assert read_calibration(tmp_path, "my bench") == find_calibration(tmp_path, "my bench") == CALIBRATION
    assert json.loads(path.read_text())["schema_version"] == 1
    assert list_calibrations(tmp_path) == ["my-bench"]


def test_noise_is_found_by_name_and_exactly_these_labels() -> None:
    """Another label is another series."""
    assert CALIBRATION.noise("series", "p99", "latency", {"route": "/a"}) is NOISE
    assert CALIBRATION.noise("series", "p99", "latency") is None
    assert CALIBRATION.noise("series", "p50", "latency", {"route": "/a"}) is None
    assert CALIBRATION.noise("counter", "p99", "latency", {"route": "/a"}) is None


def test_one_that_is_not_there_says_what_is(tmp_path: Path) -> None:
    """A near miss is named, and how to make the first one."""
    with pytest.raises(RunNotFoundError, match="create one with `telemetry calibrate -- CMD`"):
        read_calibration(tmp_path, "x")
    write_calibration(tmp_path, CALIBRATION)
    with pytest.raises(RunNotFoundError, match="did you mean my-bench"):
        read_calibration(tmp_path, "my-banch")
    with pytest.raises(RunNotFoundError, match="available: my-bench"):
        read_calibration(tmp_path, "something else")
    assert find_calibration(tmp_path, "x") is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is damaged"),
        ('{"name": "x", "runs": -1}', "is damaged"),
        ('{"name": "x", "schema_version": 99}', "schema version 99"),
    ],
)
def test_a_file_that_is_none_of_ours_is_said(tmp_path: Path, content: str, said: str) -> None:
    """Broken, impossible, or from the future."""
    path = calibration_path(tmp_path, "x")
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(RunDirectoryError, match=said):
        read_calibration(tmp_path, "x")


def test_a_place_that_can_t_be_written_is_said(tmp_path: Path) -> None:
    """Where a file is in the way of the folder."""
    (tmp_path / "calibrations").write_text("")
    with pytest.raises(RunDirectoryError, match="can't write"):
        write_calibration(tmp_path, CALIBRATION)
