"""A lake of small runs that are written by hand: odd numbers, odd names, damage, and folders left behind."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.lakes import READERS, Read, by_polars

from telemetry.errors import RunDirectoryError
from telemetry.history.tables.lake.export import Exported, export_run
from telemetry.history.tables.lake.table_file import FILE, TABLES, json_text, number
from telemetry.store.final_snapshot import read_final, write_final
from telemetry.store.records import FILE_NAME
from telemetry.store.request_log import RequestLogWriter
from telemetry.testing.sample import record_run
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

pytestmark = pytest.mark.sdk


def finished(root: Path, run_id: str, **fields: Any) -> Path:
    """A run directory with nothing but a result."""
    path = root / f"some-{run_id}"
    path.mkdir(parents=True)
    snapshot = MetricsSnapshot(run_id=run_id, name="some", state="COMPLETE", completeness="complete", **fields)
    write_final(snapshot, [path / "final_snapshot.json"])
    return path


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_run_ids_stay_texts(tmp_path: Path, read: Read) -> None:
    """Run ids stay texts whatever they look like, although readers guess types of partitions."""
    ids = ["00001234", "12e45678", "20260101", "abcdef12"]
    for run_id in ids:
        export_run(finished(tmp_path / "runs", run_id), tmp_path / "lake")
    assert sorted(row["run_id"] for row in read(tmp_path / "lake", "runs")) == ids
    alone = tmp_path / "alone"
    export_run(tmp_path / "runs" / "some-20260101", alone)
    assert [row["run_id"] for row in read(alone, "runs")] == ["20260101"]


def test_numbers_become_floats(tmp_path: Path) -> None:
    """Integers beyond those of floats are rounded; a number that is not known is null."""
    path = finished(
        tmp_path,
        "r1",
        series=[
            SeriesStat(
                name="s", count=3, total=(1 << 60) + 1, min=-0.0, max=1 << 60, percentiles={"50": 7, "12.5": 1.5}
            )
        ],
        counters=[CounterStat(name="c", value=(1 << 53) + 1)],
        gauges=[GaugeStat(name="g")],
    )
    export_run(path, tmp_path / "lake")
    (row,) = by_polars(tmp_path / "lake", "series")
    assert (row["total"], row["min"], row["max"], row["mean"]) == (float(1 << 60), 0.0, float(1 << 60), None)
    assert (row["p50"], row["p99"], row["percentiles"]) == (7.0, None, '{"12.5":1.5,"50":7}')
    values = {row["kind"]: row["value"] for row in by_polars(tmp_path / "lake", "last_values")}
    assert values == {"counter": float(1 << 53), "gauge": None}


def test_maps_that_are_equal_are_equal_texts() -> None:
    """Equal maps are equal texts, whatever the order of their keys."""
    assert json_text({"b": "2", "a": 'x"y'}) == json_text({"a": 'x"y', "b": "2"}) == '{"a":"x\\"y","b":"2"}'
    assert json_text({}) == "{}"
    assert [number(value) for value in (1, 2.5, None, math.nan, math.inf, 10**400)] == [
        1.0,
        2.5,
        None,
        None,
        None,
        None,
    ]


def test_a_table_without_rows_has_no_file(tmp_path: Path) -> None:
    """One that had rows loses its file when the run has none any more."""
    path = finished(tmp_path, "r1", counters=[CounterStat(name="c", value=1)])
    lake = tmp_path / "lake"
    assert export_run(path, lake).rows == {"runs": 1, "last_values": 1}
    assert {file.parent.parent.name for file in lake.rglob(FILE)} == {"runs", "last_values"}
    (path / "final_snapshot.json").unlink()
    write_final(MetricsSnapshot(run_id="r1", name="some", state="COMPLETE"), [path / "final_snapshot.json"])
    assert export_run(path, lake).rows == {"runs": 1}
    assert [file.parent.parent.name for file in lake.rglob(FILE)] == ["runs"]
    assert not list((lake / "last_values").iterdir())


def test_a_copy_of_a_run_is_the_same_run(tmp_path: Path) -> None:
    """The files of a copy replace those of the original, wherever the copy lies."""
    for folder in ("one", "two"):
        export_run(finished(tmp_path / folder, "r1"), tmp_path / "lake")
    assert len(by_polars(tmp_path / "lake", "runs")) == 1


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return record_run(tmp_path / "runs").path


def exported(path: Path, lake: Path) -> Exported:
    return export_run(path, lake)


def test_all_kinds_of_records(sample: Path, tmp_path: Path) -> None:
    """A complete run has no notes about missing parts. A correction replaces its value."""
    done = exported(sample, tmp_path / "lake")
    assert done.notes == []
    assert done.rows.keys() == TABLES.keys() - {"loads", "requests"}
    steps = {(row["axis"], row["step"], row["name"]): row["value"] for row in by_polars(tmp_path / "lake", "steps")}
    assert steps["train", 199, "train/v0"] == -1.0
    assert steps["prüf", 7, "not/finite"] is None
    spread = next(row for row in by_polars(tmp_path / "lake", "steps") if row["producers"] == 2)
    assert (spread["low"], spread["high"]) == (0.0, 9.0)


def test_damage_is_told(sample: Path, tmp_path: Path) -> None:
    """Damage of the record log and of the history is reported."""
    records = sample / "records" / FILE_NAME
    lines = records.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5].replace(b"train/v1", b"train/v7")
    records.write_bytes(b"".join(lines))
    for segment in (sample / "history").glob("*.seg"):
        segment.write_bytes(segment.read_bytes()[:-1] + b"!")
    notes = exported(sample, tmp_path / "lake").notes
    assert "the lake lacks 1 record: lines of the record log are damaged" in notes
    assert any("is damaged: can't read its last" in note for note in notes)


def test_what_a_run_never_had_is_told(sample: Path, tmp_path: Path) -> None:
    """A run without a history has no intervals, and a note reports it."""
    os.rename(sample / "history", tmp_path / "history")
    done = exported(sample, tmp_path / "lake")
    assert done.notes == ["the run has no history, so the lake has no intervals of it"]
    assert "intervals" not in done.rows


def test_what_a_dead_process_left_is_removed(sample: Path, tmp_path: Path) -> None:
    """A dead process's folder is removed once it is a minute old. Folders in use, and those of strangers, stay."""
    lake = tmp_path / "lake"
    old, new, foreign = lake / ".telemetry-abc.tmp", lake / ".telemetry-def.tmp", lake / ".other.tmp"
    for folder in (old, new, foreign):
        folder.mkdir(parents=True)
        (folder / "steps.parquet").write_bytes(b"PAR1")
    for folder in (old, foreign):
        os.utime(folder, (time.time() - 120.0,) * 2)
    exported(sample, lake)
    assert not old.exists()
    assert new.exists()
    assert (foreign / "steps.parquet").exists()


def test_paths_that_are_not_utf_8(tmp_path: Path) -> None:
    """The path of a run becomes a text. A lake at such a path is refused, because its readers could not open it."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    path = finished(folder, "r1")
    export_run(path, tmp_path / "lake")
    (row,) = by_polars(tmp_path / "lake", "runs")
    assert row["directory"].endswith("/caf\ufffd/some-r1")
    with pytest.raises(RunDirectoryError, match="caf\ufffd/lake: its path is not UTF-8"):
        export_run(path, folder / "lake")


def test_a_lake_that_cant_be_written_is_named(sample: Path, tmp_path: Path) -> None:
    """The error names the lake and the reason."""
    (tmp_path / "lake").write_text("a file")
    with pytest.raises(RunDirectoryError, match=r"can't write to the lake .*lake: "):
        exported(sample, tmp_path / "lake")


def test_a_run_without_a_result_is_refused(sample: Path, tmp_path: Path) -> None:
    """A run without a result is refused, and no file is written."""
    (sample / "final_snapshot.json").unlink()
    with pytest.raises(RunDirectoryError, match="has no final result"):
        exported(sample, tmp_path / "lake")
    assert not (tmp_path / "lake").exists()


def test_a_request_log_without_requests(sample: Path, tmp_path: Path) -> None:
    """A request log without requests makes no table."""
    RequestLogWriter(sample / "requests").close()
    assert "requests" not in exported(sample, tmp_path / "lake").rows


def test_a_longer_name_of_the_run(tmp_path: Path) -> None:
    """Names of folders are made of plain characters."""
    path = finished(tmp_path, "r1")
    final = path / "final_snapshot.json"
    snapshot = replace(read_final(final), name="größe/=火 " * 30)
    final.unlink()
    write_final(snapshot, [final])
    export_run(path, tmp_path / "lake")
    (row,) = by_polars(tmp_path / "lake", "runs")
    assert row["name"] == snapshot.name
    assert row["run"].isascii()
