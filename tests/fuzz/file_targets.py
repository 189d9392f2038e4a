"""Files: everything a run directory, a runtime directory or a configuration can hold."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec
import zmq
from msgspec.structs import replace
from tests.fuzz import valid
from tests.fuzz.file_forms import HistorySegment, Json, PackedInterval, Segment, Toml
from tests.fuzz.forms import Form
from tests.fuzz.memory_files import folder
from tests.fuzz.msgpack_form import Msgpack, Pieces, join_pieces, split_pieces
from tests.fuzz.target import KIB, MIB, Target, refused
from tests.fuzz.wire_targets import check_refusal
from zmq.utils import z85

from telemetry import limits
from telemetry.cli.ab.session import FILE, read_result
from telemetry.common import formatting, wording
from telemetry.config import load
from telemetry.config.load import FIELDS, env_name
from telemetry.errors import (
    ConfigError,
    RunDirectoryError,
    RunNotFoundError,
    TelemetryError,
)
from telemetry.history import RecordedRun
from telemetry.history import requests as recorded_requests
from telemetry.history.request_model import counts, figures, merging
from telemetry.judge.ab import betting
from telemetry.judge.ab import judge as judge_module
from telemetry.judge.ab.judge import AbJudge
from telemetry.judge.ab.model import AbFigure, AbPair, AbResult, AbRun, AbSettings, Side
from telemetry.judge.merge import run as run_module
from telemetry.report import (
    FORMATS,
    ab,
    ab_page,
    ab_review,
    content,
    formats_of,
    render,
    render_as,
    requests,
    table,
    text,
)
from telemetry.report.sources import sources_sections
from telemetry.store import (
    final_snapshot,
    framing,
    history,
    interval_log,
    journal,
    live_runs,
    merge_sources,
    processes,
    records,
    run_directory,
)
from telemetry.store.intervals import levels, packed, planes, time_range
from telemetry.supervise import spawn
from telemetry.transport import keys
from telemetry.wire import codec
from telemetry.wire.codec import Malformed
from telemetry.wire.control import SeriesKey
from telemetry.wire.drop_reasons import FRAME_REASONS
from telemetry.wire.journal import Checkpoint
from telemetry.wire.report import Report as WireReport
from telemetry.wire.seal import sealed
from telemetry.wire.sources import Sources, SourceSeries, SourceStat

_MOST_FILES: Final = 6
JOURNAL_FORMS: Final[dict[int, Form]] = {
    journal.BATCH: Msgpack(8),
    journal.CHECKPOINT: Msgpack(),
    journal.NOTE: Msgpack(),
}
_NOTHING: Final = memoryview(b"")
_BUFFERS: Final = 3 * MIB  # the reader's own, however small the file is


# --- frames --------------------------------------------------------------------------------------


@cache
def journal_segments() -> tuple[bytes, bytes]:
    """Two segments of one journal, as its writer would leave them."""
    whole = valid.aggregator()
    checkpoint = encode_segment_checkpoint(whole.checkpoint())
    notes = list(map(codec.encode_note, valid.notes()))
    turns = valid.frames()
    first = segment(
        journal.MAGIC,
        [
            ([checkpoint], 1, journal.CHECKPOINT),
            (notes[:2], 2, journal.NOTE),
            (turns[:2], 3, journal.BATCH),
            (turns[2:4], 4, journal.BATCH),
            (notes[4:6], 5, journal.NOTE),
        ],
    )
    second = segment(
        journal.MAGIC,
        [
            ([checkpoint], 6, journal.CHECKPOINT),
            (turns[4:], 7, journal.BATCH),
            (notes[2:4], 8, journal.NOTE),
            (notes[6:], 9, journal.NOTE),
        ],
    )
    return first, second


def encode_segment_checkpoint(numbers: bytes) -> bytes:
    return codec.encode_checkpoint(Checkpoint(run=valid.run_state(), numbers=msgspec.Raw(numbers)))


@contextmanager
def small_buffers() -> Iterator[None]:
    """A frame larger than the reader's buffer is a few KiB then, and a reader costs little."""
    usual = framing._READ_BYTES, framing._PIECE_BYTES
    framing._READ_BYTES, framing._PIECE_BYTES = 2 * KIB, 512  # type: ignore[misc]
    try:
        yield
    finally:
        framing._READ_BYTES, framing._PIECE_BYTES = usual  # type: ignore[misc]


def segment(magic: bytes, runs: list[tuple[Any, int, int]]) -> bytes:
    frames = [buffer for payloads, stamp, kind in runs for buffer in framing.frame(payloads, stamp, kind)]
    return framing.segment_header(magic) + b"".join(frames)


def history_segment(start: int = 0, count: int = 3, step: int = 1) -> bytes:
    data = codec.encode_interval(valid.INTERVAL)
    return segment(levels.MAGIC, [([data], start + at * step, levels.INTERVAL) for at in range(count)])


def packed_segment(start: int = 0, count: int = 3, step: int = 1) -> bytes:
    """One frame of planes as they are, others that are deflated, of one group and of several."""
    stamps = [start + at * step for at in range(count)]
    usual = packed._GROUP_BYTES
    frames = []
    for at, stamp in enumerate(stamps):
        packed._GROUP_BYTES = 64 if at == 2 else usual  # type: ignore[misc]
        payload = packed.pack(valid.INTERVAL if at == 0 else valid.wide_interval(), stamp, levels.PACKED)
        assert payload is not None
        frames.append(([payload], stamp, levels.PACKED))
    packed._GROUP_BYTES = usual  # type: ignore[misc]
    return segment(levels.MAGIC, frames)


def run_segment(data: bytes) -> int:
    """Check that all bytes are good or torn, and that each payload that is handed out has its CRC.

    A reader that passes over payloads finds the same frames.
    """
    with small_buffers():
        _check_segment(_segment_reader(data), data)
    return 1


def _segment_reader(data: bytes) -> framing.SegmentReader:
    return framing.SegmentReader(io.BytesIO(data), Path("a.seg"), journal.MAGIC)  # type: ignore[arg-type]


def _check_segment(reader: framing.SegmentReader, data: bytes) -> None:
    begun = framing.SEGMENT_HEADER_BYTES
    found = []
    try:
        for frame in reader.frames():
            begun += framing.FRAME_HEADER_BYTES + len(frame.data)
            found.append((frame.stamp, frame.kind))
            assert reader.good_bytes == begun
            assert (
                b"".join(framing.frame([frame.data], frame.stamp, frame.kind))
                == data[begun - framing.FRAME_HEADER_BYTES - len(frame.data) : begun]
            )
    except RunDirectoryError as error:
        refused(error)
        return
    assert reader.good_bytes + reader.torn_bytes == len(data)
    other = _segment_reader(data)
    passed_over = list(other.frames(unread=JOURNAL_FORMS))
    assert [(frame.stamp, frame.kind) for frame in passed_over] == found
    assert not any(len(frame.data) for frame in passed_over if frame.kind in JOURNAL_FORMS)
    assert (other.good_bytes, other.torn_bytes) == (reader.good_bytes, reader.torn_bytes)


def run_journal(data: bytes) -> int:
    """Frames of files in the order of their numbers; whatever is in them, each payload is read or refused. Who
    passes the checkpoints over meets the same frames."""
    pieces = split_pieces(data)[:_MOST_FILES]
    reader = journal.JournalReader(folder({f"{kind:08d}.seg": file for kind, file in pieces}))
    with small_buffers():
        try:
            found = []
            for frame in reader.frames():
                _read_payload(frame.kind, bytes(frame.data))
                found.append(frame._replace(data=_NOTHING))
            torn = reader.torn_bytes
            passed_over = [frame._replace(data=_NOTHING) for frame in reader.frames(unread={journal.CHECKPOINT})]
            assert (passed_over, reader.torn_bytes) == (found, torn)
            newest = reader.last_checkpoint()
            assert next(reader.frames(newest)).kind == journal.CHECKPOINT
        except RunDirectoryError as error:
            refused(error)
    size = sum(len(file) for _, file in pieces)
    assert 0 <= reader.tail_bytes <= reader.torn_bytes <= size
    return max(1, len(pieces))


def _read_payload(kind: int, data: bytes) -> None:
    decoders = {
        journal.BATCH: codec.decode_batch,
        journal.NOTE: codec.decode_note,
        journal.CHECKPOINT: codec.decode_checkpoint,
    }
    if kind in decoders:
        try:
            decoders[kind](data)
        except Malformed as error:
            check_refusal(error, FRAME_REASONS)


# --- the history ---------------------------------------------------------------------------------

_KEYS_FILE: Final = 0


def key_lines() -> bytes:
    keys = [
        SeriesKey(index=0, name="latency", kind="series", unit="ms", labels=valid.LABELS, ticks_per_unit=1e6),
        SeriesKey(index=1, name="size", kind="series", digits=2),
        SeriesKey(index=0, name="requests", kind="counter"),
    ]
    return b'{"schema_version":1}\n' + b"".join(msgspec.json.encode(key) + b"\n" for key in keys)


def run_history(data: bytes) -> int:
    """Intervals of all levels, what their indices mean, and one of the other ways to read them."""
    pieces = split_pieces(data)[:_MOST_FILES]
    reader = history.HistoryReader(folder({_history_name(kind): file for kind, file in pieces}))
    way = crc32(data) & 3  # all of them cost three times as much as one
    with small_buffers():
        _keys_of(reader)
        for level in (0, 10) if way == len(_WINDOWS) else (0,):
            try:
                for interval in reader.intervals(level_s=level):
                    codec.decode_interval(codec.encode_interval(interval))
            except RunDirectoryError as error:
                refused(error)
            assert 0 <= reader.torn_bytes <= len(data)
        if way < len(_WINDOWS):
            _pick_all(reader, _WINDOWS[way], len(data))
    return max(1, len(pieces))


_WINDOWS: Final = ((0, (1 << 63) - 1), (valid.WALL_NS + 1, valid.WALL_NS + 30 * 10**9))


def _pick_all(reader: history.HistoryReader, window: tuple[int, int], size: int) -> None:
    """Read the sums of all series and the intervals of one series.

    Where nothing is torn, both have the same intervals.
    """
    whole = _read_all(reader.coarse(*window))
    for interval in whole or ():
        codec.decode_interval(codec.encode_interval(interval))
    torn = reader.torn_bytes
    assert 0 <= torn <= size
    for coarse in (True, False):
        picked = _read_all(reader.pick(1, *window, coarse=coarse))
        assert all((one.slots[1:] >= one.slots[:-1]).all() for one in picked or ())
        if coarse and not torn and picked is not None and whole is not None:
            assert [one.end_ns for one in picked] == [one.end_ns for one in whole]


def _read_all(found: Iterator[Any]) -> list[Any] | None:
    """Return all items, or None if the input is refused."""
    try:
        return list(found)
    except RunDirectoryError as error:
        refused(error)
        return None


def run_hlog(data: bytes) -> int:
    """The same, as the log of another world."""
    pieces = split_pieces(data)[:_MOST_FILES]
    reader = history.HistoryReader(folder({_history_name(kind): file for kind, file in pieces}))
    with small_buffers():
        series = {key.index: key for key in _keys_of(reader) if key.kind == "series"}
        try:
            interval_log._write(io.BytesIO(), reader.intervals(), series)
        except RunDirectoryError as error:
            refused(error)
    return max(1, len(pieces))


def _keys_of(reader: history.HistoryReader) -> list[SeriesKey]:
    try:
        return reader.keys()
    except RunDirectoryError as error:
        refused(error)
        return []


def _history_name(kind: int) -> str:
    if kind == _KEYS_FILE:
        return "keys.jsonl"
    level = levels.LEVELS[kind % len(levels.LEVELS)]
    return f"{level}s-{kind // 3 * 60:010d}-{1_700_000_000 + kind}.seg"


def run_history_keys(data: bytes) -> int:
    for key in _keys_of(history.HistoryReader(folder({"keys.jsonl": data}))):
        interval_log.tag(key)
        msgspec.json.encode(key)
    return 1


# --- records, results, manifests -----------------------------------------------------------------


def record_lines() -> bytes:
    return b'{"schema_version":1,"run_id":"r","protocol":[1,0]}\n' + b"".join(
        map(records.record_line, valid.stream_records())
    )


def run_records(data: bytes) -> int:
    """Check that every record that can be read can be sent."""
    try:
        log = records.RecordLog(folder({records.FILE_NAME: data}))
        read = log.read(0, 50, 2 * MIB)
    except RunDirectoryError as error:
        refused(error)
        return 1
    assert [record.seq for record in read] == list(range(len(read)))
    assert len(read) <= log.next_seq
    for record in read:
        codec.encode_stream_record(record)
        records.record_line(record)
    return 1


def run_final(data: bytes) -> int:
    """The file of a finished run, and the same bytes as a producer's fallback reads them."""
    try:
        codec.snapshot_to_json(final_snapshot.read_final(folder({"f": data}) / "f"))
    except RunDirectoryError as error:
        refused(error)
    try:
        codec.snapshot_to_json(codec.snapshot_from_json(data))
    except Malformed as error:
        check_refusal(error, FRAME_REASONS)
    return 1


def run_report(data: bytes) -> int:
    """Check that every result that can be read can be shown, and that no text in it moves the cursor."""
    try:
        snapshot = final_snapshot.read_final(folder({"f": data}) / "f")
    except RunDirectoryError as error:
        refused(error)
        return 1
    report = RecordedRun(WireReport(snapshot=snapshot, source="file"), None).report()
    for form in FORMATS:
        shown = render(report, form, width=100)
        assert form == "json" or _is_printable(shown), form
    return 1


def _is_printable(text: str) -> bool:
    """Return whether no character of a text moves the cursor, but for the ends of lines."""
    return all(line.isprintable() for line in text.replace("\N{NO-BREAK SPACE}", " ").split("\n"))


def run_manifest(data: bytes) -> int:
    directory = run_directory.RunDirectory(folder({run_directory.MANIFEST: data}))
    try:
        manifest = directory.read_manifest()
    except RunDirectoryError as error:
        refused(error)
        return 1
    msgspec.json.encode(manifest)
    run_directory.slug(manifest.name)
    return 1


def run_sources(data: bytes) -> int:
    """Check that sources that can be read can be shown in a report, and compared with other sources."""
    directory = run_directory.RunDirectory(folder({merge_sources.SOURCES: data}))
    try:
        found = merge_sources.read_sources(directory)
    except RunDirectoryError as error:
        refused(error)
        return 1
    made = WireReport(snapshot=valid.short_snapshot(), source="file", sources=found)
    for section in sources_sections(made):
        text.render_section(section, 80)
    compared = run_module.compared(found)
    assert [len(series) for series in compared] == [len(source.series) for source in found]
    return 1


def _sources() -> list[SourceStat]:
    labels = {"op": "read"}
    slow = SourceSeries(name="s", labels=labels, unit="ms", count=9, mean=1.5, p50=1, p99=9.5, max=10)
    fast = SourceSeries(name="s", labels=labels, unit="ms", count=3, p99=1.5, p99_to_others=0.25, odd=True)
    return [
        SourceStat(run_id="r", name="n", host="h", started_ns=valid.WALL_NS, elapsed_s=1.5, series=[slow, fast]),
        SourceStat(run_id="q", name="n", label="q", completeness="lossy", lost=2, series=[fast]),
    ]


def run_ab(data: bytes) -> int:
    """Check that a comparison that can be read can go on and be shown. Its JSON and its file can be read again."""
    try:
        result = read_result(folder({FILE: data}))
    except RunDirectoryError as error:
        refused(error)
        return 1
    judged = _judged(result)
    for form in formats_of("ab"):
        shown = render_as("ab", judged, form, width=100)
        if form == "json":
            assert msgspec.json.decode(shown, type=AbResult) == judged
        elif form != "html":
            assert _is_printable(shown), form
    ab_review.ab_svg(judged)
    assert ab_review.ab_summary(judged).count("\n") <= 30
    assert ab.progress(judged).isprintable()
    assert read_result(folder({FILE: sealed(msgspec.json.encode(judged))})) == judged
    return 1


def _judged(result: AbResult) -> AbResult:
    """Return the result after two calls of `telemetry ab`: the second one has only the newest pair."""
    valid_pairs = [pair for pair in result.pairs if not pair.void]
    judge = AbJudge(result.settings, result.figures, valid_pairs[:-1], result.final)
    for pair in valid_pairs[-1:]:
        judge.add(pair)
    return replace(result, verdicts=judge.verdicts(), final=judge.final, failures=judge.failures)


def _comparisons() -> list[AbResult]:
    """Return comparisons without a pair, with a void pair, with failed requests, and of one command."""
    settings = AbSettings(before=["a", "b"], after=["c"], labels=("a", "c"), seed=1, prepare=("x", "y"))
    figures = [
        AbFigure(name="wall time", unit="s", better="lower"),
        AbFigure(name="rate", unit="1/s", better="higher", decides=False),
        AbFigure(name="depth", unit="1", better="neither"),
    ]
    empty = AbResult(settings=settings, most_pairs=60, budget_s=9.5)
    void = AbPair(before=AbRun(failure="exit code 1"), after=AbRun(), first="after", void="a: exit code 1")
    made = [
        replace(empty, pairs=_pairs(4, 0), ending="stopped"),
        replace(empty, pairs=[*_pairs(14, 0), void], seconds=3.5),
        replace(empty, pairs=_pairs(3, 50)),
        replace(empty, pairs=_pairs(9, 0), settings=replace(settings, same=True)),
    ]
    return [empty, *(_judged(replace(result, figures=figures)) for result in made)]


def _pairs(number: int, failed: int) -> list[AbPair]:
    runs = [AbRun(values={"wall time": 1.5, "rate": 9, "depth": 0}, requests=60, ended=60)]
    runs += [
        AbRun(values={"wall time": 2 + at / 99, "rate": 8.5, "depth": at}, requests=60, ended=60, failed=failed)
        for at in range(number)
    ]
    sides: list[Side] = ["before", "after"]
    return [AbPair(before=runs[0], after=runs[at + 1], first=sides[at % 2]) for at in range(number)]


class _Runtime:
    """A runtime directory with one announcement in it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def glob(self, pattern: str) -> list[Any]:
        return [folder({"run.json": self._data}) / "run.json"]


def run_live_run(data: bytes) -> int:
    """A file that can't be read is skipped, and one that can is found or not found."""
    runtime: Any = _Runtime(data)
    runs = live_runs.list_live(runtime)
    assert len(runs) <= 1
    for spec in ("latest", *(run.name for run in runs)):
        try:
            live_runs.find_live(runtime, spec)
        except RunNotFoundError as error:
            refused(error)
    return 1


# --- settings ------------------------------------------------------------------------------------

_FEW: Final = 12
"""Errors that quote everything are told apart by their first words."""
_TOML: Final = (
    b'[run]\ndir = "runs"\nrefresh_hz = 10\npercentiles = ["50", "99.9"]\nfallback_dirs = []\n',
    b'[emit]\nflush_ms = 50.0\npolicy = "drop"\n[limits]\nseries = 100\n',
    b"[journal]\nenabled = false\nsegment_bytes = 1_048_576\ncap_bytes = 2_097_152\n",
    b'[tool.telemetry.run]\nwindow_s = 10\n[tool.telemetry.transport]\nbind = "tcp://127.0.0.1:0"\n',
)


def run_toml(data: bytes) -> int:
    name = "pyproject.toml" if b"tool" in data else "telemetry.toml"
    try:
        load({}, cwd=folder({name: data}), environ={})
    except ConfigError as error:
        refused(error, _FEW)
        str(error).encode()
    return 1


def run_environment(data: bytes) -> int:
    """Lines of NAME=VALUE."""
    text = data.decode("utf-8", "surrogateescape").replace("\0", "")
    environ = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
    try:
        load({}, cwd=folder({}), environ={**environ, "HOME": "", "XDG_CONFIG_HOME": ""})
    except ConfigError as error:
        refused(error, _FEW)
    return 1


def _environment() -> list[bytes]:
    values = [
        (env_name(key), info.default) for key, info in FIELDS.items() if isinstance(info.default, int | float | str)
    ]
    lines = [f"{name}={value}".encode() for name, value in values]
    return [*lines, b"\n".join(lines[:4]), b"TELEMETRY_RUN__PERCENTILES=50,99.9", b"TELEMETRY_RUN__WRONG=1"]


def run_ready(data: bytes) -> int:
    """Read the message of an aggregator to the process that started it."""
    try:
        spawn._facts(data, io.BytesIO(data), 1.0, in_time=True)
    except TelemetryError as error:
        refused(error, _FEW)
    return 1


def run_key(data: bytes) -> int:
    """Check the content of a key file: ZeroMQ takes every key that we take."""
    text = data.decode("ascii", "replace")
    named = keys.is_name(text)
    for found in {text, text.strip(), text.removeprefix(keys._WARNING).strip()}:
        if keys.is_key(found):
            assert not keys.is_name(found)
            assert len(z85.decode(found.encode())) == 32
            if data[-1] % 8 == 0:  # it takes long
                assert keys.is_key(zmq.curve_public(found.encode()).decode())
    assert not named or ("/" not in text and not text.startswith("."))
    return 1


def small_segments() -> list[bytes]:
    """A batch, a note, a checkpoint; the numbers in that one are none."""
    bare = encode_segment_checkpoint(b"\x80")
    note = codec.encode_note(valid.notes()[4])
    return [
        segment(journal.MAGIC, [([bare], 1, journal.CHECKPOINT), ([valid.frames()[2]], 2, journal.BATCH)]),
        segment(journal.MAGIC, [([bare], 1, journal.CHECKPOINT), ([note, note], 3, journal.NOTE)]),
        segment(journal.MAGIC, []),
    ]


def _loaders() -> tuple[Any, ...]:
    from sys import modules

    from telemetry.config import load as _  # noqa: F401 – the function hides its module

    module = modules["telemetry.config.load"]
    names = (
        "_entries",
        "_from_file",
        "_read_toml",
        "_admit",
        "_convert",
        "_unknown",
        "_wanted",
        "_as_list_of_text",
    )
    return tuple(getattr(module, name) for name in (*names, "_contradictions", "user_config_path"))


_INTERVALS: Final = HistorySegment({levels.INTERVAL: Msgpack(), levels.PACKED: PackedInterval()}, levels.PACKED)
_HISTORY_FORM: Final = Pieces({0: Json(), **dict.fromkeys(range(1, 7), _INTERVALS)}, 0.3)


def histories() -> list[bytes]:
    return [
        join_pieces([(0, key_lines()), (3, history_segment()), (1, history_segment(0, 2, 10))]),
        join_pieces([(0, key_lines()), (3, history_segment(0, 1)), (6, history_segment(120, 1))]),
        join_pieces([(0, key_lines()), (3, packed_segment()), (1, packed_segment(0, 2, 10))]),
        join_pieces(
            [(0, key_lines()), (3, packed_segment(58, 4)), (6, packed_segment(120, 1)), (2, packed_segment())]
        ),
    ]


TARGETS: Final = (
    Target(
        name="segment",
        run=run_segment,
        form=Segment(JOURNAL_FORMS),
        seeds=lambda: [*(data[: 16 + 600] for data in journal_segments()), *small_segments()],
        covers=(framing.SegmentReader,),
        head=framing.segment_header(journal.MAGIC),
        base_bytes=_BUFFERS,
    ),
    Target(
        name="journal",
        run=run_journal,
        form=Pieces(dict.fromkeys(range(4), Segment(JOURNAL_FORMS))),
        seeds=lambda: [
            join_pieces(list(enumerate(journal_segments()))),
            join_pieces([(at, data) for at, data in enumerate(small_segments())]),
            join_pieces([(3, small_segments()[0])]),
        ],
        covers=(journal.JournalReader, journal._segments),
        base_bytes=2 * _BUFFERS,
    ),
    Target(
        name="history",
        arrays=True,
        run=run_history,
        form=_HISTORY_FORM,
        seeds=histories,
        covers=(
            *(history.HistoryReader, history._parts, levels.segments, levels.decoded, levels.within),
            *(time_range, framing.SegmentSteps, packed.Head, packed.unpack, packed.pick, packed._series),
            *(planes.inflated, planes._inflated, planes.Joined, planes.one_column, planes.one_row),
        ),
        base_bytes=_BUFFERS + 8 * limits.HISTORY_UNPACKED_BYTES,
        bytes_each=8 * limits.HISTORY_UNPACKED_TIMES,
    ),
    Target(
        name="hlog",
        arrays=True,
        run=run_hlog,
        form=_HISTORY_FORM,
        seeds=histories,
        covers=(
            interval_log._write,
            interval_log._head,
            interval_log._series,
            interval_log._Encoder,
            interval_log.tag,
            interval_log.series_id,
        ),
        base_bytes=96 * MIB,  # the export's own, for one histogram of five digits
        share=0.1,
    ),
    Target(
        name="history_keys",
        run=run_history_keys,
        form=Json(),
        seeds=lambda: [key_lines()],
        covers=(history.HistoryReader.keys,),
        base_bytes=256 * KIB,
    ),
    Target(
        name="records",
        run=run_records,
        form=Json(),
        seeds=lambda: [record_lines(), *(b"\n".join(record_lines().split(b"\n")[:n]) + b"\n" for n in (1, 2, 4))],
        covers=(records.RecordLog.read, records.RecordLog._header, records.RecordLog._decode, records._Lines),
        base_bytes=2 * MIB,
    ),
    Target(
        name="final",
        run=run_final,
        form=Json(),
        seeds=lambda: [
            b'{"schema_version":1,"run_id":"r","name":"n","elapsed_s":null,"warnings":["w"]}',
            *(codec.snapshot_to_json(made) for made in (valid.small_snapshot(), valid.short_snapshot())),
            final_snapshot.final_json(valid.short_snapshot()),
        ],
        covers=(
            final_snapshot.read_final,
            final_snapshot._snapshot,
            final_snapshot._without_nulls,
            codec.snapshot_from_json,
        ),
        head=b'{"schema_version":1,',
    ),
    Target(
        name="report",
        run=run_report,
        form=Json(),
        seeds=lambda: [
            final_snapshot.final_json(valid.whole_snapshot()),
            final_snapshot.final_json(valid.requests_snapshot()),
            *valid.golden("report/snapshot.json"),
        ],
        covers=(content, requests, counts, figures, merging, recorded_requests, wording, formatting, text, table),
        base_bytes=8 * MIB,
        bytes_each=2_000,
        share=0.02,
    ),
    Target(
        name="manifest",
        run=run_manifest,
        form=Json(),
        seeds=lambda: [
            msgspec.json.encode(
                run_directory.Manifest(run_id="r", name="n", argv=["a"], config={"run": {"dir": "d"}})
            )
        ],
        covers=(run_directory.RunDirectory.read_manifest, run_directory.slug),
        head=b'{"run_id":"r",',
    ),
    Target(
        name="sources",
        run=run_sources,
        form=Json(),
        seeds=lambda: [msgspec.json.encode(Sources(sources=made)) for made in (_sources()[:1], _sources())],
        covers=(merge_sources.read_sources, sources_sections, run_module),
        head=b'{"sources":[{"run_id":"r","name":"n",',
        base_bytes=8 * MIB,
        bytes_each=2_000,
        share=0.1,
    ),
    Target(
        name="ab",
        run=run_ab,
        form=Json(),
        seeds=lambda: [msgspec.json.encode(result) for result in _comparisons()],
        covers=(read_result, judge_module, betting, ab, ab_page, ab_review),
        head=b'{"settings":{"before":["a"],"after":["b"],"labels":["a","b"],"seed":1},"most_pairs":1,',
        base_bytes=8 * MIB,
        bytes_each=2_000,
        share=0.05,
    ),
    Target(
        name="live_run",
        run=run_live_run,
        form=Json(),
        seeds=lambda: [
            msgspec.json.encode(
                live_runs.LiveRun(
                    run_id="r",
                    name="n",
                    pid=0,
                    endpoint="ipc://c",
                    dir="runs/n",
                    state="LIVE",
                    started_ns=valid.WALL_NS,
                )
            )
        ],
        covers=(live_runs.list_live, live_runs.find_live, processes.process_lives, live_runs._not_found),
        head=b'{"run_id":"r",',
    ),
    Target(
        name="toml",
        run=run_toml,
        form=Toml(),
        seeds=lambda: list(_TOML),
        covers=(load, *_loaders()),
        head=b"[run]\n",
        bytes_each=2_000,
    ),
    Target(
        name="environment",
        run=run_environment,
        form=Toml(),
        seeds=_environment,
        covers=(load, *_loaders()),
        head=b"TELEMETRY_RUN__DIR=",
        bytes_each=2_000,
    ),
    Target(
        name="key",
        run=run_key,
        form=Toml(),
        seeds=lambda: [
            key := b"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID",
            key + b"\n",
            keys._WARNING.encode() + key,
            b"lab-7",
        ],
        covers=(keys.is_key, keys.is_name, keys._number),
    ),
    Target(
        name="ready",
        run=run_ready,
        form=Json(),
        seeds=lambda: [
            b'{"endpoint": "ipc://x", "run_id": "r"}\n',
            b'{"error": "no", "kind": "ConfigError", "hint": "h"}\n',
        ],
        covers=(spawn._facts, spawn._reported, spawn._last_words),
    ),
)
