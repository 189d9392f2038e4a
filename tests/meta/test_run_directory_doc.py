"""Tests that docs/RUN_DIRECTORY.md describes the disk: sizes, kinds, names. Its reader needs no package."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from telemetry import limits
from telemetry.backends.sources.source import Position
from telemetry.cli.beside_run.flight import FOLDER
from telemetry.cli.run_list_page import REPORT_PAGE
from telemetry.client.artifact_copies import store
from telemetry.collectors.git import DIFF
from telemetry.config.schema import HistoryConfig, JournalConfig, RecordsConfig, RunConfig, UpstreamConfig
from telemetry.integrations.capture.capture_log import SIGNS
from telemetry.limits import GIB, MIB
from telemetry.store import backends as writers
from telemetry.store import journal, request_log
from telemetry.store.framing import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, frame, segment_header
from telemetry.store.gate_results import write_ending_gate, write_gates, write_gates_so_far
from telemetry.store.history import HistoryWriter
from telemetry.store.imported_file import write_imported
from telemetry.store.intervals import levels, packed, planes
from telemetry.store.journal import JournalReader, JournalWriter
from telemetry.store.merge_sources import write_sources
from telemetry.store.outbox import MAGIC as OUTBOX_MAGIC
from telemetry.store.outbox import DiskOutbox, StoredBatch
from telemetry.store.output_log import OutputLog
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.store.stragglers_file import StragglersFile, write_stragglers
from telemetry.testing import frame as batch
from telemetry.wire.codec import encode_note
from telemetry.wire.control import SeriesKey
from telemetry.wire.events import Count, Mark, StreamRecord
from telemetry.wire.gates import GateResult
from telemetry.wire.history import Interval, SeriesColumns, Slice, ValueColumns
from telemetry.wire.imported import ImportedFile, StatedFigure
from telemetry.wire.journal import NOTES, BadFrames, Checkpoint
from telemetry.wire.request_log import LoggedRecords
from telemetry.wire.snapshot import BackendStat
from telemetry.wire.sources import Sources, SourceSeries, SourceStat
from telemetry.wire.version import SCHEMA

TEXT = (Path(__file__).parents[2] / "docs" / "RUN_DIRECTORY.md").read_text()
WORDS = " ".join(TEXT.split())


def table(header: str) -> list[list[str]]:
    """Cells of the table whose header line begins so."""
    lines = TEXT.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {header}"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def names(kind: type) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def written(directory: Path) -> RunDirectory:
    """A run directory with a journal of two segments, the second one torn."""
    run = RunDirectory.create(directory, "job", "r1", 10**18)
    writer = JournalWriter(run.journal, b"state", 1)
    writer.append([batch("p", 0, 0, records=[Count("n")]), batch("q", 0, 0, records=[Count("n")])], 2)
    writer.begin(b"more state", 3)
    writer.note([encode_note(BadFrames(counts={"wrong_topic": 2}))], 4)
    writer.append([batch("p", 1, 1, records=[Count("n")])], 5)
    writer.close()
    last = run.journal / "00000001.seg"
    last.write_bytes(last.read_bytes()[:-1])
    return run


def test_the_hex_sample_is_what_we_write() -> None:
    """Byte for byte, and the words beside it are its values."""
    (sample,) = re.findall(r"```hex journal\n(.*?)```", TEXT, re.DOTALL)
    found = bytes.fromhex("".join(line[:52] for line in sample.splitlines()))
    note = encode_note(BadFrames(counts={"wrong_topic": 2}))
    assert found == segment_header(journal.MAGIC) + b"".join(frame([note], 1_000_000_007, journal.NOTE))
    length, _, stamp, kind = struct.unpack_from("<IIQB", found, SEGMENT_HEADER_BYTES)
    assert f"{length} bytes of payload" in sample
    assert f"{length + 9} bytes from here on" in sample
    assert (f"stamp {stamp:,}" in sample, f"kind {kind}, a note" in sample) == (True, True)


def test_the_reader_in_ten_lines_reads_a_journal(tmp_path: Path) -> None:
    """Run as it stands, without our package, it prints what ours reads, and stops where ours stops."""
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(code.strip().splitlines()) <= 13
    run = written(tmp_path)
    (run.journal / "00000002.seg").touch()  # begun when the power went
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(run.path)], capture_output=True, text=True, timeout=60, check=True
    )
    expected = [
        f"{item.segment:08d} {item.time_ns} {item.kind} {len(item.data)} {bytes(item.data[:8]).hex()}"
        for item in JournalReader(run.journal).frames()
    ]
    assert done.stdout.splitlines() == expected
    assert len(expected) == 5


def test_sizes_and_kinds_are_the_codes() -> None:
    """Headers, kinds, notes and magics: each number and word that somebody would write a reader from."""
    assert [row[0] for row in table("bytes of a segment")] == ["0–7", "8–15", f"from {SEGMENT_HEADER_BYTES}"]
    assert [row[0] for row in table("bytes of a frame")][-1] == f"from {FRAME_HEADER_BYTES}"
    for magic in (journal.MAGIC, levels.MAGIC, OUTBOX_MAGIC, request_log.MAGIC):
        assert f"`{magic.decode().encode('unicode_escape').decode()}`" in TEXT
    assert f"schema version, {SCHEMA} " in TEXT
    kinds = {"a batch": journal.BATCH, "a checkpoint": journal.CHECKPOINT, "a note": journal.NOTE}
    assert [row[0] for row in table("kind")] == [f"{number}, {word}" for word, number in kinds.items()]
    assert f"array in frames of kind {levels.INTERVAL}, packed in frames of kind {levels.PACKED}." in WORDS
    said = re.search(r"The types of notes are (.*?) Kinds and types", WORDS)
    assert said is not None
    assert re.findall(r"`(\w+)`", said[1]) == [str(kind.__struct_config__.tag) for kind in NOTES]
    (checkpoint,) = [row[1] for row in table("kind") if "checkpoint" in row[0]]
    assert re.findall(r"`(\w+)`", checkpoint) == names(Checkpoint)


def test_the_packed_sample_is_what_we_write() -> None:
    """Byte for byte; and the words beside it, and its lengths, are what it says."""
    (sample,) = re.findall(r"```hex history\n(.*?)```", TEXT, re.DOTALL)
    found = bytes.fromhex("".join(line[:52] for line in sample.splitlines()))
    interval = Interval(
        1_700_000_000 * 10**9,
        1_700_000_001 * 10**9,
        SeriesColumns(
            index=struct.pack("<2I", 0, 3),
            count=struct.pack("<2Q", 3, 1),
            total=struct.pack("<2d", 5.5, 9.0),
            min=struct.pack("<2d", 1.5, 9.0),
            max=struct.pack("<2d", 2.5, 9.0),
            occupied=struct.pack("<2I", 2, 1),
            slots=struct.pack("<3I", 1_500, 1_700, 9),
            counts=struct.pack("<3I", 2, 1, 1),
        ),
        ValueColumns(struct.pack("<I", 0), struct.pack("<d", 7.0)),
    )
    payload = packed.pack(interval, 59, levels.PACKED)
    assert payload is not None
    assert found == b"".join(frame([payload], 59, levels.PACKED))
    assert f"{len(payload)} bytes of payload" in sample
    assert f"kind {levels.PACKED}, a packed interval" in sample


def test_the_packed_layout_is_the_codes() -> None:
    """Offsets, masks, the order of the planes, and what is packed at all."""
    rows = [row[0] for row in table("bytes of a packed interval")]
    masks = range(packed.OPENING_BYTES - planes.MASKS, packed.OPENING_BYTES)
    assert rows[-4:] == [f"{masks[0]}–{masks[-1]}", f"from {packed.OPENING_BYTES}", "then", "then"]
    small = [column for row in table("column") for column in re.findall(r"`(\w+)`", row[0])]
    assert sorted(small) == sorted(names(SeriesColumns))
    masked = re.findall(r"`(\w+)`", WORDS.partition("The masks are those of")[2].partition("of the counters")[0])
    of_rows, of_cells = masked[:6], masked[6:8]
    assert masked == [*of_rows, *of_cells, *names(ValueColumns)]
    blocks = [sorted({of_rows[column] for column, _ in block}) for block in planes.ROWS.blocks]
    order = WORDS.partition("to the lowest: ")[2].partition("`slots`")[0].split(";")
    assert blocks == [sorted(re.findall(r"`(\w+)`", part)) or ["max", "min", "total"] for part in order[:4]]
    assert [of_cells[column] for column, _ in (places[0] for places in planes.CELLS.blocks)][::4] == of_cells
    assert f"columns come to {levels._WORTH_IT_BYTES:,} bytes or more is packed" in WORDS
    most = limits.HISTORY_UNPACKED_BYTES // MIB, limits.HISTORY_UNPACKED_TIMES
    assert "more than {} MiB and more than {} times".format(*most) in WORDS


def test_bounds_are_the_settings() -> None:
    """Defaults of segment, cap and retention, as they are written."""
    sizes, ages = JournalConfig(), HistoryConfig()
    assert f"`journal.segment_bytes` ({sizes.segment_bytes // MIB} MiB by default)" in WORDS
    assert f"`journal.cap_bytes` ({sizes.cap_bytes // GIB} GiB by default)" in WORDS
    assert f"larger than {limits.OUTPUT_LOG_BYTES // MIB} MiB" in WORDS
    kept = dict(table("level"))
    assert list(kept) == [f"{level} s" for level in levels.LEVELS]
    assert f"`history.cap_bytes` ({ages.cap_bytes // GIB} GiB by default)" in WORDS
    assert f"`upstream.cap_bytes` ({UpstreamConfig().cap_bytes // MIB} MiB by default)" in WORDS
    assert f"`run.request_log_cap` ({RunConfig().request_log_cap // MIB} MiB by default)" in WORDS
    assert f"`records.cap_bytes` ({RecordsConfig().cap_bytes // GIB} GiB by default)" in WORDS
    assert kept["1 s"] == f"`history.retention_1s_s`, {ages.retention_1s_s / 3_600:g} h by default"
    assert kept["10 s"] == f"`history.retention_10s_s`, {ages.retention_10s_s / 3_600:g} h by default"


def test_every_file_is_named(tmp_path: Path) -> None:
    """The list at the top names each file that a run leaves. Each file in the list is left by some run."""
    run = written(tmp_path)
    run.write_manifest(Manifest(run_id="r1", name="job"))
    run.final.touch()
    write_sources(run, [])
    write_gates(run.path, [])
    write_gates_so_far(run.path, [])
    write_ending_gate(run.path, GateResult(expression="lost == 0", outcome="fail", reason=""))
    run.log.touch()
    (run.path / SIGNS).touch()
    (run.path / DIFF).touch()
    (run.path / REPORT_PAGE).touch()
    (run.path / FOLDER).mkdir()
    (run.path / FOLDER / "20261125T192621Z-killed.json").touch()
    output = OutputLog(run.path, file_bytes=1)
    output.append(b"one\n")
    output.append(b"two\n")
    output.close()
    history = HistoryWriter(run.history)
    history.append(Interval(0, 1), [SeriesKey(index=0, name="s", kind="series")])
    history.append_slices([Slice(0, 0, Interval(0, 1))])
    history._notice(1, "nothing")
    history.close()
    RecordLog(run.records).append([StreamRecord((1, 0), "r1", 0, "p", 1, Mark("m"))])
    log = request_log.RequestLogWriter(run.requests)
    log.append([LoggedRecords("p", 0, 0, [])], 0)
    log.close()
    logged = WORDS.partition("a msgpack array of four elements:")[2].partition(". These")[0]
    assert re.findall(r"`(\w+)`", logged) == names(LoggedRecords)
    leave_a_writer(run.path)
    store(__file__, str(run.path), MIB, GIB)
    write_imported(run, ImportedFile(tool="k6"))
    write_stragglers(run, StragglersFile())
    outbox = DiskOutbox(run.upstream)
    outbox.append([StoredBatch(0, 0, 0, 0, batch("p"))], {})
    outbox.root = "r0"
    outbox.close()
    tree = re.search(r"runs/latest.*?\n\n", TEXT, re.DOTALL)
    assert tree is not None
    promised = {re.sub(r"\d{8}|….*", "*", name) for name in re.findall(r"^ {6}(\S+)", tree[0], re.MULTILINE)}
    left = [path.relative_to(run.path).as_posix() for path in run.path.rglob("*") if path.is_file()]
    left = [re.sub(r"(?<=backends/)w(?=/)", "<name>", re.sub(r"(?<=/data/).*", "*", name)) for name in left]
    left = [re.sub(r"(?<=flight/).*", "*", name) for name in left]
    left = [re.sub(r"(?<=sha256/)([0-9a-f]{2})/\1[0-9a-f]{62}$", "ab/abcdef*", name) for name in left]
    there = {re.sub(r"\d{8}(?=\.)|(?<=s-).*", "*", name) for name in left}
    assert promised == there
    assert names(Manifest) == re.findall(r"`(\w+)`", WORDS.partition("## manifest.json")[2].partition("Secrets")[0])
    verdicts = WORDS.partition("## stragglers.json")[2].partition("## gates.json")[0]
    assert set(names(StragglersFile)) <= set(re.findall(r"`(\w+)`", verdicts))
    sources = set(re.findall(r"`(\w+)`", WORDS.partition("## sources.json")[2].partition("It has no journal")[0]))
    assert sources == {"sources", *names(Sources), *names(SourceStat), *names(SourceSeries)}
    origin = set(re.findall(r"`(\w+)`", WORDS.partition("## imported.json")[2].partition("## stragglers.json")[0]))
    assert origin == {*names(ImportedFile), *names(StatedFigure)}
    keys = WORDS.partition("one line for each instrument:")[2].partition(". Indices")[0]
    assert sorted(names(SeriesKey)) == sorted(re.findall(r"`(\w+)`", keys))


def leave_a_writer(run: Path) -> None:
    """Every file that one may leave."""
    folder = writers.writer_folder(run, "w")
    folder.make()
    folder.write_facts(writers.WriterFacts(name="w", kind="jsonl", to="jsonl:as=w"))
    folder.write_checkpoint(writers.WriterCheckpoint())
    folder.write_status(BackendStat(name="w"))
    ahead = writers.Unconfirmed(folder.ahead)
    ahead.write(0, 1)
    ahead.close()
    for path in (folder.log, folder.lock, folder.data / "items.jsonl"):
        path.touch()


def test_files_of_a_writer_are_described_as_they_are(tmp_path: Path) -> None:
    """Field by field."""
    leave_a_writer(tmp_path)
    rows = dict(table("file"))
    folder = writers.writer_folder(tmp_path, "w")
    assert [name.strip("`/") for name in rows] == [
        path.name
        for path in (
            *(folder.facts, folder.checkpoint, folder.status, folder.ahead, folder.log, folder.lock, folder.data),
        )
    ]
    for path, row in ((folder.facts, "writer.json"), (folder.checkpoint, "checkpoint.json")):
        assert list(msgspec.json.decode(path.read_bytes()))[:-1] == re.findall(r"`(\w+)`", rows[f"`{row}`"])
    words = WORDS.partition("`position` has")[2].partition("A folder that is removed")[0]
    position, _, counts = words.partition("`counts` has")
    assert [name for name in names(Position) if f"`{name}`" not in position] == []
    assert re.findall(r"`(\w+)`", counts) == names(writers.Counts)
    assert f"emptied at {limits.BACKEND_LOG_BYTES // MIB} MiB" in rows["`writer.log`"]
    assert folder.ahead.read_text() == f"{0:018} {1:018}\n"


@pytest.mark.skipif(shutil.which("flock") is None, reason="util-linux only")
def test_the_shell_asks_for_the_lock(tmp_path: Path) -> None:
    """The line that is to be copied says who has a run."""
    run = written(tmp_path)
    (line,) = re.findall(r"^    (flock .*)$", TEXT, re.MULTILINE)
    line = line.replace("runs/latest", str(tmp_path / "latest"))

    def said() -> str:
        return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False).stdout

    lock = run.lock()
    assert said() == "somebody has it\n"
    lock.release()
    assert said() == ""
