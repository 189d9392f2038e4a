"""Calibrations on disk: one file a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from telemetry.common.programs import command_key
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
CALIBRATION = Calibration(
    name="my bench", argv=["./x", "1"], cwd="/w", host="h", created_ns=5, runs=2, metrics=[NOISE]
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A calibration reads back under the name it was given, whatever its characters, with a version."""
    path = write_calibration(tmp_path, CALIBRATION)
    assert path == calibration_path(tmp_path, "my bench", CALIBRATION.command)
    assert path.name.startswith("my-bench-")
    assert read_calibration(tmp_path, "my bench") == CALIBRATION
    assert find_calibration(tmp_path, command_key(["x", "1"], "/w")) is None
    assert find_calibration(tmp_path, command_key(["/w/x", "1"], "/")) == CALIBRATION
    assert json.loads(path.read_text())["schema_version"] == 1
    assert list_calibrations(tmp_path) == ["my-bench"]


def test_commands_of_one_name_have_a_calibration_each(tmp_path: Path) -> None:
    """The name stands for the newest; the same command replaces its own, whatever it was called."""
    write_calibration(tmp_path, CALIBRATION)
    newer = replace(CALIBRATION, argv=["./x", "2"], created_ns=6)
    write_calibration(tmp_path, newer)
    assert read_calibration(tmp_path, "my bench") == newer
    assert find_calibration(tmp_path, CALIBRATION.command) == CALIBRATION
    again = replace(CALIBRATION, name="other", created_ns=7)
    write_calibration(tmp_path, again)
    assert find_calibration(tmp_path, CALIBRATION.command) == again
    assert list_calibrations(tmp_path) == ["my-bench", "other"]


def test_a_file_of_an_older_version_is_found_by_its_name(tmp_path: Path) -> None:
    """A file of an older version belongs to no command, because its directory is unknown."""
    path = write_calibration(tmp_path, replace(CALIBRATION, cwd=""))
    path.rename(path.with_name("my-bench.json"))
    assert read_calibration(tmp_path, "my bench").argv == ["./x", "1"]
    assert find_calibration(tmp_path, CALIBRATION.command) is None


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
    assert find_calibration(tmp_path, ("x",)) is None


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
    path = calibration_path(tmp_path, "x", ("x",))
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(RunDirectoryError, match=said):
        read_calibration(tmp_path, "x")


def test_a_place_that_can_t_be_written_is_said(tmp_path: Path) -> None:
    """A calibration can't be written if a file is in the way of the folder."""
    (tmp_path / "calibrations").write_text("")
    with pytest.raises(RunDirectoryError, match="can't write"):
        write_calibration(tmp_path, CALIBRATION)
