"""The record log: one contiguous sequence, readable while it grows."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from telemetry.errors import RunDirectoryError
from telemetry.store.records import FILE_NAME, DamagedRecord, RecordLog
from telemetry.wire import events
from telemetry.wire.events import Mark, Streamed, StreamRecord
from telemetry.wire.version import PROTOCOL

EVERY_KIND: list[Streamed] = [
    events.Mark("a line\nwith a break", 5, {"k": "ü"}),
    events.Params({"lr": 0.1, "n": 3, "deep.on": True, "none": None, "text": "x"}),
    events.Expect("requests", 1_000.0),
    events.Scalars("epoch", 3, {"loss": 0.25, "broken": None}, 7),
    events.StepEnd("epoch", 3),
    events.Span("io", 1, 2, "rank 0"),
    events.Note("name", "text"),
    events.Artifact("model", "file:///m.pt", "torch"),
    events.Session("started"),
    events.Axis("train", "sum", {"*/loss": "mean"}, 3),
    events.Table("t", ["a", "b"], [[1, "x"], [None, 2.5]], 5, "train", 7),
    events.Bins("b", [0.0, 1.0, 2.5], [3, 4], 5, "train", 7),
    events.ClosedStep(
        "train", 7, {"loss": 0.25, "lr": None}, {"loss": events.Spread(2, 0.0, 0.5, 0.25, "p", "q")}, 2, "late", 1
    ),
    events.ClosedStep("train", 8, {"wait": 0.25}, ranks={"wait": [(0, 0.0), (1, 0.5), ("a producer", 0.25)]}),
]


def record(seq: int, what: Streamed | None = None) -> StreamRecord:
    return StreamRecord(PROTOCOL, "r1", seq, "p", 1_000 + seq, what or Mark(f"mark {seq}"))


def filled(directory: Path, count: int) -> RecordLog:
    log = RecordLog(directory)
    log.append([record(seq) for seq in range(count)])
    return log


def test_every_kind_of_record_round_trips(tmp_path: Path) -> None:
    """A record of any type reads back as it was appended."""
    wanted = [record(seq, what) for seq, what in enumerate(EVERY_KIND)]
    log = RecordLog(tmp_path)
    log.append(wanted)
    assert log.read(0, 100) == wanted
    assert log.next_seq == len(wanted)
    log.close()


def test_lines_are_strict_json_with_names(tmp_path: Path) -> None:
    """The first line carries schema and run; a value that is no finite number is null."""
    log = RecordLog(tmp_path)
    log.append([record(0, events.Scalars("step", 1, {"loss": float("nan"), "lr": 0.5}))])
    header, line = (tmp_path / "records.jsonl").read_text().splitlines()
    assert json.loads(header).items() >= {"schema_version": 1, "run_id": "r1", "protocol": list(PROTOCOL)}.items()
    fields = json.loads(line)
    assert (fields["seq"], fields["producer"], fields["type"]) == (0, "p", "scalars")
    assert fields["values"] == {"loss": None, "lr": 0.5}
    assert log.read(0, 1)[0].record == events.Scalars("step", 1, {"loss": None, "lr": 0.5})


@given(st.integers(0, 700), st.integers(0, 750), st.integers(0, 800))
def test_reads_any_slice(count: int, from_seq: int, limit: int) -> None:
    """A slice of the log is the slice of the sequence."""
    with TemporaryDirectory(prefix="tm") as name:
        log = filled(Path(name), count)
        log.close()
        found = [item.seq for item in log.read(from_seq, limit)]
    assert found == list(range(count))[from_seq : from_seq + limit]


def test_a_gap_is_refused(tmp_path: Path) -> None:
    """The sequence is contiguous from 0."""
    log = filled(tmp_path, 3)
    for wrong in ([record(4)], [record(2)], [record(3), record(5)]):
        with pytest.raises(ValueError, match="go on with 3"):
            log.append(wrong)
    assert log.next_seq == 3


def test_another_reader_follows_while_it_grows(tmp_path: Path) -> None:
    """A reader of its own sees what was appended since, and leaves out a line that is still being written."""
    writer, reader = RecordLog(tmp_path), RecordLog(tmp_path)
    assert reader.read(0, 10) == []
    writer.append([record(0)])
    assert len(reader.read(0, 10)) == 1
    writer.append([record(1)])
    path = tmp_path / "records.jsonl"
    whole = path.read_bytes()
    for cut in range(1, 30):
        path.write_bytes(whole + b'{"seq":2,"wall_ns":1002,"producer":"p"'[:cut])
        assert [item.seq for item in reader.read(0, 10)] == [0, 1]
    assert reader.next_seq == 2


def test_a_log_is_continued_after_a_kill(tmp_path: Path) -> None:
    """A new writer cuts the half line of the killed one and goes on with the next number."""
    filled(tmp_path, 5).close()
    with (tmp_path / "records.jsonl").open("ab") as file:
        file.write(b'{"seq":5,"half')
    log = RecordLog(tmp_path)
    assert log.next_seq == 5
    log.append([record(5)])
    assert [item.seq for item in RecordLog(tmp_path).read(0, 10)] == list(range(6))


@given(st.data())
def test_a_log_killed_at_any_byte_goes_on(data: st.DataObject) -> None:
    """Whole lines stay, the half one goes, and what follows is as if nobody had been killed."""
    with TemporaryDirectory(prefix="tm") as name:
        whole, parts = Path(name, "whole"), Path(name, "parts")
        for directory in (whole, parts):
            filled(directory, 4).close()
        os.truncate(parts / "records.jsonl", data.draw(st.integers(0, (whole / "records.jsonl").stat().st_size)))
        log = RecordLog(parts, resume=data.draw(st.booleans()))
        log.append([record(seq) for seq in range(log.next_seq, 4)] or [record(4)])
        log.close()
        found = (parts / "records.jsonl").read_bytes()
        assert found.startswith((whole / "records.jsonl").read_bytes())
        assert [item.seq for item in log.read(0, 10)] == list(range(log.next_seq))


@pytest.mark.parametrize("count", [1, 255, 256, 257, 600])
@pytest.mark.parametrize(
    "tail", [b"\0" * 50, b"\n\n\xff\xfe\n{}\nx", b'{"seq":9,"wall_ns":1}\n' * 300], ids=["zeros", "lines", "others"]
)
def test_what_a_power_cut_left_is_cut(tmp_path: Path, count: int, tail: bytes) -> None:
    """Lines at the end that are no records, and never one that is."""
    filled(tmp_path, count).close()
    path = tmp_path / "records.jsonl"
    before = path.read_bytes()
    path.write_bytes(before + tail)
    log = RecordLog(tmp_path, resume=True)
    assert log.next_seq == count
    assert path.read_bytes() == before
    log.append([record(seq) for seq in range(count, count + 300)])
    assert [item.seq for item in log.read(count - 1, 2)] == [count - 1, count]
    assert [item.seq for item in log.read(count + 290, 100)] == list(range(count + 290, count + 300))
    log.close()


@pytest.mark.parametrize(("header", "why"), [(b'{"schema_version":9}\n', "schema version 9"), (b"x\n", "line 1")])
def test_a_log_that_cannot_be_read_is_left_alone(tmp_path: Path, header: bytes, why: str) -> None:
    """A log that can't be read is unchanged, because its lines may be good.

    It fails, and the run goes on without it.
    """
    path = tmp_path / "records.jsonl"
    path.write_bytes(header + b"{}\n")
    log = RecordLog(tmp_path, resume=True)
    assert why in log.failed
    log.append([record(1)])
    log.close()
    assert path.read_bytes() == header + b"{}\n"


def test_a_full_disk_fails_the_log_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC sets `failed`, raises nothing, and what was appended before is readable."""
    log = filled(tmp_path, 2)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    log.append([record(2)])
    log.append([record(3)])
    assert log.failed == "No space left on device"
    assert [item.seq for item in log.read(0, 10)] == [0, 1]


def test_a_path_that_is_a_file_fails_the_log(tmp_path: Path) -> None:
    """A log whose directory can't be made fails at the first append."""
    (tmp_path / "file").touch()
    log = RecordLog(tmp_path / "none" / "records")
    (tmp_path / "none").touch()
    log.append([record(0)])
    assert "Not a directory" in log.failed


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"not json",
        b"[1]",
        b'{"seq":1,"wall_ns":1,"producer":"p","type":"no such","text":"x"}',
        b'{"seq":1,"wall_ns":1,"producer":"p","type":"mark"}',
        b'{"seq":7,"wall_ns":1,"producer":"p","type":"mark","text":"x","time_ns":0,"labels":{}}',
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    """A line that is no record, or not the one it should be, is an error with file and line."""
    filled(tmp_path, 1).close()
    with (tmp_path / "records.jsonl").open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(RunDirectoryError, match=r"can't read .*records\.jsonl: line 3"):
        RecordLog(tmp_path).read(0, 10)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """A log of a newer version is not guessed at."""
    (tmp_path / "records.jsonl").write_bytes(b'{"schema_version":9}\n{}\n')
    with pytest.raises(RunDirectoryError, match="schema version 9"):
        RecordLog(tmp_path).read(0, 1)


def test_a_line_of_many_megabytes_is_a_line(tmp_path: Path) -> None:
    """A record may be as long as a frame; those after it are found, and a bound in bytes still gives one."""
    log = RecordLog(tmp_path)
    large = events.Params({f"k{number}": "x" * 4_096 for number in range(900)})
    log.append([record(0), record(1, large), record(2)])
    assert [item.seq for item in log.read(0, 10)] == [0, 1, 2]
    assert [item.seq for item in log.read(0, 10, 1_000_000)] == [0]
    assert [item.seq for item in log.read(1, 10, 1_000_000)] == [1]
    assert [item.seq for item in log.read(2, 10, 1_000_000)] == [2]
    assert RecordLog(tmp_path).next_seq == 3
    log.close()


def test_a_changed_record_is_damaged(tmp_path: Path) -> None:
    """A changed record is damaged, also if it is still JSON. Lines of an older version have no check."""
    log = RecordLog(tmp_path)
    log.append([record(seq, events.Mark("good")) for seq in range(3)])
    log.close()
    path = tmp_path / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"good", b"evil")
    lines[3] = re.sub(rb',"crc":"\w+"', b"", lines[3]).replace(b"good", b"old")
    path.write_bytes(b"".join(lines))
    with pytest.raises(DamagedRecord, match=r"can't read .*records\.jsonl: line 3: its content does not match"):
        RecordLog(tmp_path).read(1, 1)
    assert RecordLog(tmp_path).read(2, 1)[0].record == events.Mark("old")


class MarkLine(Struct, tag_field="type", tag="mark"):
    """A mark with some of its fields."""

    seq: int
    text: str


def test_records_of_one_type(tmp_path: Path) -> None:
    """Only the wanted fields of the wanted type are read.

    Damaged lines, and one that is being written, are left out.
    """
    log = RecordLog(tmp_path)
    assert list(log.of_type(MarkLine)) == []
    kinds = [Mark("a"), *EVERY_KIND, events.Span("s", 1, 2, labels={"type": "mark"}), Mark("b"), Mark("c")]
    log.append([record(seq, what) for seq, what in enumerate(kinds)])
    log.close()
    path = tmp_path / FILE_NAME
    with path.open("ab") as file:
        file.write(path.read_bytes().splitlines()[-1])
    path.write_bytes(path.read_bytes().replace(b'"text":"b"', b'"text":"B"'))
    found = [(line.seq, line.text) for line in log.of_type(MarkLine)]
    assert found == [(0, "a"), (1, "a line\nwith a break"), (len(kinds) - 1, "c")]


def test_the_header_of_records_of_one_type(tmp_path: Path) -> None:
    """A log of a newer version can't be read."""
    filled(tmp_path, 1).close()
    path = tmp_path / FILE_NAME
    path.write_bytes(re.sub(rb'"schema_version":\d+', b'"schema_version":99', path.read_bytes(), count=1))
    with pytest.raises(RunDirectoryError):
        list(RecordLog(tmp_path).of_type(MarkLine))


def test_a_line_without_end_takes_no_memory(tmp_path: Path) -> None:
    """A sparse file has a terabyte of zeros: what is before them is read, and the rest is damaged at once."""
    log = RecordLog(tmp_path)
    log.append([record(0)])
    log.close()
    with (tmp_path / "records.jsonl").open("ab") as file:
        file.truncate(1 << 40)
    log = RecordLog(tmp_path)
    assert [item.seq for item in log.readable()] == [0]
    assert log.damaged_lines() == 0
    assert len(list(log.of_type(MarkLine))) == 1
    with pytest.raises(RunDirectoryError, match="line 3"):
        log.read(1, 10)
    log.append([record(1)])
    assert [item.seq for item in RecordLog(tmp_path).readable()] == [0, 1]
    log.close()
