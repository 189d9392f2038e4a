"""Files that anybody may have written: each is read, or refused with one of our own errors that names it."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import pack
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from telemetry.config import load
from telemetry.errors import ConfigError, RunDirectoryError, TelemetryError
from telemetry.store import framing
from telemetry.store.final_snapshot import read_final
from telemetry.store.history import HistoryReader
from telemetry.store.interval_log import export_hlog
from telemetry.store.intervals import levels
from telemetry.store.live_runs import LiveRun, find_live, list_live
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.supervise import spawn
from telemetry.wire.codec import encode_interval
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, SeriesColumns

DEEP = 30_000
JSON_NOISE = [
    b"[" * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP,
    b'{"a":' * DEEP + b"0" + b"}" * DEEP,
    b'"\xff"',
    b'{"\xff":1}',
    b"1" * 10_000,
    b"-",
    b"",
    b"\0" * 100,
    b'"\\ud800"',
]
VALID = {
    "final": b'{"schema_version":1,"run_id":"r","name":"n"}',
    "manifest": msgspec.json.encode(Manifest(run_id="r", name="n", config={"run": {"dir": "d"}})),
    "records": b'{"schema_version":1,"run_id":"r","protocol":[1,0]}\n'
    b'{"seq":0,"wall_ns":5,"producer":"p","type":"mark","text":"m","time_ns":1,"labels":{}}\n',
    "keys": b'{"schema_version":1}\n' + msgspec.json.encode(SeriesKey(index=0, name="s", kind="series")) + b"\n",
    "live run": msgspec.json.encode(
        LiveRun(run_id="r", name="n", pid=1, endpoint="ipc://e", dir="d", state="LIVE", started_ns=5)
    ),
}


def read_records(folder: Path) -> None:
    RecordLog(folder).read(0, 100)


def read_final_file(folder: Path) -> None:
    read_final(folder / "final_snapshot.json")


def read_keys(folder: Path) -> None:
    HistoryReader(folder).keys()


def read_manifest(folder: Path) -> None:
    RunDirectory(folder).read_manifest()


def read_live_runs(folder: Path) -> None:
    list_live(folder.parent)
    with pytest.raises(TelemetryError):
        find_live(folder.parent, "nobody")


READERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "final": ("final_snapshot.json", read_final_file),
    "manifest": ("manifest.json", read_manifest),
    "records": ("records.jsonl", read_records),
    "keys": ("keys.jsonl", read_keys),
    "live run": ("run.json", read_live_runs),
}


def read(kind: str, folder: Path, data: bytes) -> None:
    """Read a file with any content, and check that only an error of our own comes of it."""
    name, reader = READERS[kind]
    (folder / name).write_bytes(data)
    with suppress(RunDirectoryError):
        reader(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile") / "r"
    made.mkdir()
    return made


@pytest.mark.parametrize("noise", JSON_NOISE, ids=lambda noise: f"{noise[:6]!r}x{len(noise)}")
@pytest.mark.parametrize("kind", READERS)
def test_json_that_is_noise_is_refused_by_name(kind: str, noise: bytes, folder: Path) -> None:
    """Noise is refused by name in any place of a JSON file.

    The noise stands for the whole file, its first line, its last line, or a value.
    """
    valid = VALID[kind]
    first, _, rest = valid.partition(b"\n")
    read(kind, folder, noise)
    read(kind, folder, noise + b"\n" + rest)
    read(kind, folder, first + b"\n" + noise + b"\n")
    for at in range(len(valid)):
        if valid[at : at + 1] in (b":", b","):
            end = min(found for mark in b",}" if (found := valid.find(bytes((mark,)), at + 1)) > 0)
            read(kind, folder, valid[: at + 1] + noise + valid[end:])


@pytest.mark.parametrize("number", [-1, 1 << 31, 1 << 53, (1 << 63) - 1, 1 << 63, 1 << 64, 10**40, -(10**40)])
@pytest.mark.parametrize("kind", READERS)
def test_numbers_of_any_size_are_read_or_refused(kind: str, number: int, folder: Path) -> None:
    """A pid or a time that no system has is no reason to fall over."""
    valid = VALID[kind]
    for at in range(len(valid)):
        if valid[at : at + 1] == b":" and valid[at + 1 : at + 2].isdigit():
            end = min(found for mark in b",}" if (found := valid.find(bytes((mark,)), at + 1)) > 0)
            read(kind, folder, valid[: at + 1] + str(number).encode() + valid[end:])


@pytest.mark.parametrize("kind", READERS)
@given(data=st.data())
def test_damaged_files_are_read_or_refused(kind: str, folder: Path, data: DataObject) -> None:
    """Bits that flipped, pieces that are gone or there twice."""
    valid = bytearray(VALID[kind])
    for at in data.draw(st.lists(st.integers(0, len(valid) * 8 - 1), max_size=3)):
        valid[at // 8] ^= 1 << at % 8
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(valid)), st.integers(0, len(valid)))))
    piece = data.draw(st.sampled_from([b"", bytes(valid[start:end]) * 2, b"\n", b"\xff", b"[" * 100]))
    read(kind, folder, bytes(valid[:start]) + piece + bytes(valid[end:]))


@pytest.mark.parametrize(
    "changes",
    [{"run_id": "../elsewhere"}, {"run_id": "/"}, {"run_id": "other"}, {"dir": "a\0b"}, {"dir": "\0"}],
    ids=lambda changes: next(iter(changes)),
)
def test_an_announcement_speaks_of_its_own_folder(changes: dict[str, str], tmp_path: Path) -> None:
    """An announcement may only name its own folder, as files of a dead run are removed by its id.

    Files of others must not be removed.
    """
    valid = msgspec.json.decode(VALID["live run"], type=LiveRun)
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "run.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(valid, **changes)))
    assert list_live(tmp_path) == []
    with pytest.raises(TelemetryError):
        find_live(tmp_path, "nobody")


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_a_path_that_can_be_none_is_no_run_directory(path: str) -> None:
    """A path that cannot be one, from an announcement or a manifest, is no run directory."""
    with pytest.raises(RunDirectoryError):
        RunDirectory.open(Path(path))


# --- segments ------------------------------------------------------------------------------------

SERIES = {
    "index": pack("<I", 0),
    "count": pack("<Q", 2),
    "total": pack("<d", 4.0),
    "min": pack("<d", 1.5),
    "max": pack("<d", 2.5),
    "occupied": pack("<I", 2),
    "slots": pack("<2I", 1_500, 2_000),
    "counts": pack("<2I", 1, 1),
}

WIDE = dict.fromkeys(("count", "total", "min", "max"), bytes(16))


def frame(payload: bytes, stamp: int = 0, kind: int = levels.INTERVAL) -> bytes:
    tail = pack("<QB", stamp, kind)
    return pack("<II", len(payload), crc32(payload, crc32(tail))) + tail + payload


def history(folder: Path, *payloads: bytes, digits: int = 3) -> Path:
    """A history with these payloads behind good checksums."""
    key = b'{"index":0,"name":"s","kind":"series","digits":%d}\n' % digits
    (folder / "keys.jsonl").write_bytes(b'{"schema_version":1}\n' + key)
    data = framing.segment_header(levels.MAGIC) + b"".join(map(frame, payloads))
    (folder / "1s-0000000000-5.seg").write_bytes(data)
    return folder


def interval(**columns: bytes) -> bytes:
    return encode_interval(Interval(5, 6, SeriesColumns(**SERIES | columns)))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x95\x05\x06" + b"\x91" * DEEP,
        interval(occupied=pack("<I", 0xFFFFFFFF)),
        interval(occupied=pack("<I", 1)),
        interval(index=b"123"),
        interval(count=b""),
        interval(max=pack("<2d", 1.0, 2.0)),
        interval(slots=pack("<2I", 2_000, 1_500)),
        interval(index=pack("<2I", 1, 0), occupied=pack("<2I", 1, 1), **WIDE),
        interval(slots=pack("<2I", 1_500, 0xFFFFFFFF)),
    ],
)
def test_intervals_that_can_not_be_are_damage(payload: bytes, tmp_path: Path) -> None:
    """The export of a history with impossible intervals ends with one clear error.

    The export does not take 32 GiB of memory.
    """
    with pytest.raises(RunDirectoryError):
        export_hlog(history(tmp_path, payload), tmp_path / "out.hlog")
    assert not (tmp_path / "out.hlog").exists()


@pytest.mark.parametrize("digits", [-1, 0, 6, 9, 77, 1 << 62])
def test_keys_of_a_precision_that_can_not_be_are_damage(digits: int, tmp_path: Path) -> None:
    """Nine digits alone are a histogram of gigabytes."""
    with pytest.raises(RunDirectoryError):
        export_hlog(history(tmp_path, interval(), digits=digits), tmp_path / "out.hlog")


# --- settings and messages -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "[run]\ndir = " + "[" * 5_000,
        "[run]\ndir = " + "[" * 5_000 + "]" * 5_000,
        "[run]\ndir = " + "{a = " * 5_000 + "0" + "}" * 5_000,
        "a." * 5_000 + "a = 1",
        "[run]\nrefresh_hz = " + "9" * 5_000,
        "[run]\nrefresh_hz = 1e" + "9" * 400,
        "[run]\nrefresh_hz = 0x" + "f" * 5_000,
    ],
    ids=["open", "closed", "tables", "dotted", "digits", "exponent", "hex"],
)
def test_settings_that_are_noise_are_one_clear_error(text: str, tmp_path: Path) -> None:
    """Nesting and numbers that the TOML library itself can't take."""
    (tmp_path / "telemetry.toml").write_text(text)
    with pytest.raises(ConfigError):
        load({}, cwd=tmp_path, environ={})


@pytest.mark.parametrize("line", [*JSON_NOISE, b'{"endpoint":' + b"[" * DEEP, b'{"error":{"a":1},"kind":[]}'])
def test_a_ready_message_that_is_noise_is_an_error_of_ours(line: bytes) -> None:
    """An aggregator that says nonsense was not started, and the program that wanted it goes on."""
    with pytest.raises(TelemetryError):
        spawn._facts(line, io.BytesIO(), 1.0, in_time=True)
