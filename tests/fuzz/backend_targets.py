"""Writers to trackers: what is in their folder of a run, and what `--to` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from tests.fuzz import valid
from tests.fuzz.file_forms import Json
from tests.fuzz.memory_files import MemoryPath, folder
from tests.fuzz.msgpack_form import Pieces, join_pieces, split_pieces
from tests.fuzz.target import KIB, MIB, Target, refused
from tests.fuzz.text_forms import Options

from telemetry.backends import choice
from telemetry.backends.backend import NotConfigured
from telemetry.backends.naming import AxisOwners
from telemetry.backends.writer import process
from telemetry.cli.commands import export
from telemetry.common import wording
from telemetry.config.plugins import choice as choices
from telemetry.config.plugins import entry_points
from telemetry.config.plugins.backends import BUILT_IN
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.history import backends as recorded_backends
from telemetry.redaction import MASK
from telemetry.report import backends as shown
from telemetry.report import text as text_report
from telemetry.report.html import document as html_backends
from telemetry.store import backends as files
from telemetry.store.backends import Unconfirmed, WriterCheckpoint, WriterFacts, WriterFolder
from telemetry.supervise import writers
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BACKEND_ENDED, BackendStat

# --- the folder of a writer ----------------------------------------------------------------------

_FILES: Final = ("writer.json", "checkpoint.json", "status.json", "ahead", "names.json", "lock")
_WRITER: Final = "w"


class _Tree(MemoryPath):
    """A directory with directories in it, by their path."""

    def __init__(self, inner: Mapping[str, MemoryPath], name: str = "r") -> None:
        super().__init__(name)
        self._inner = inner

    def __truediv__(self, name: str) -> MemoryPath:
        return self._inner.get(name) or super().__truediv__(name)

    def iterdir(self) -> Iterator[MemoryPath]:
        return iter(self._inner.values())


class _Run:
    """The directory of a run with one writer."""

    def __init__(self, data: bytes) -> None:
        entries = {_FILES[kind % len(_FILES)]: file for kind, file in split_pieces(data)[:12]}
        self.own: Any = folder(entries, _WRITER)
        self.path: Any = _Tree({files.BACKENDS: _Tree({_WRITER: self.own}, files.BACKENDS)})


def run_writer(data: bytes) -> int:
    """Each file is read or refused; what is read can be shown, gone on with, and written again."""
    run = _Run(data)
    own = WriterFolder(run.own)
    checkpoint, _ = _read(lambda: process._checkpoint(own)) or (WriterCheckpoint(), None)
    assert Unconfirmed(own.ahead).read(checkpoint.serial) >= 0
    _read(lambda: export._rest(own, None))
    for value in (checkpoint, _read(own.read_facts)):
        assert value is None or msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value
    known = AxisOwners(own.path / "names.json")
    assert all(isinstance(text, str) for pair in known.items() for text in pair)
    _check_status(run, _read(own.read_status))
    return max(1, len(split_pieces(data)[:12]))


def run_writer_file(data: bytes) -> int:
    """The same bytes as each of the files: read, and then written again as they were, or refused."""
    own = WriterFolder(folder(dict.fromkeys(_FILES[:-1], data), _WRITER))
    checkpoint, _ = _read(lambda: process._checkpoint(own)) or (WriterCheckpoint(), None)
    for value in (checkpoint, _read(own.read_facts), _read(own.read_status)):
        assert value is None or msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value
    assert Unconfirmed(own.ahead).read(checkpoint.serial) >= 0
    assert all(isinstance(text, str) for pair in AxisOwners(own.path / "names.json").items() for text in pair)
    return 1


def _read(read: Any) -> Any:
    """Return what `read` returns, or None if the input is refused."""
    try:
        return read()
    except (RunDirectoryError, NotConfigured, UsageError) as error:
        refused(error)
        return None


def _check_status(run: Any, stat: BackendStat | None) -> None:
    told = replace(valid.small_snapshot(), backends=[valid.BACKEND], time_ns=valid.WALL_NS)
    snapshot = recorded_backends.with_backends(told, run)
    told_now = [stat] if stat and (run.own / "writer.json").is_file() else []
    assert files.read_backends(run.path) == told_now
    names = [one.name for one in snapshot.backends]
    assert names == list(dict.fromkeys([valid.BACKEND.name, *(one.name for one in told_now)]))
    known = [one.next_record + one.queued for one in (valid.BACKEND, *told_now)]
    assert {max(one.next_record, *known) for one in snapshot.backends} == {max(known)}
    last = _last_report(run)
    assert stat is None or last == stat
    for code in (0, 1, -9):
        ended = writers.concluded(last, SimpleNamespace(code=code, restarts=2))  # type: ignore[arg-type]
        assert ended.state in BACKEND_ENDED
        wording.shortfall(ended, "r")
    if stat is None:
        return
    for state in ("COMPLETE", "LIVE"):
        report = Report(snapshot=replace(snapshot, state=state), source="file")  # type: ignore[arg-type]
        lines = [shown.line(report), *recorded_backends.of_backends(report)]
        lines += text_report.render_section(shown.backends(report), 100)
        assert all(line.isprintable() for text in lines for line in text.split("\n"))
        assert html_backends.backends_body(report)
        html_backends.backends_link(report)


def _last_report(run: Any) -> BackendStat:
    """Return the writer's last report as the process that started the writer reads it."""
    made = writers.Writers([f"jsonl:as={_WRITER}"], print)
    with _paths(lambda _: run.path):
        return made._read(_WRITER)


@contextmanager
def _paths(make: Any) -> Iterator[None]:
    usual = writers.Path
    writers.Path = make
    try:
        yield
    finally:
        writers.Path = usual


def _folders() -> list[bytes]:
    facts = WriterFacts(name=_WRITER, kind="jsonl", to="jsonl:path=a.jsonl,as=w", cwd="/tmp", every_s=1.5)
    checkpoint = WriterCheckpoint(
        serial=3, position={"next_record": 7}, state={"a": [1]}, counts=files.Counts(written=9)
    )
    status = replace(valid.BACKEND, name=_WRITER, time_ns=valid.WALL_NS, queued=5, place="here")
    hangs = replace(status, state="writing", calling_s=99.0, time_ns=valid.WALL_NS - 1)
    failed = replace(status, state="failed", time_ns=0, dropped={}, written=3, repeated=1, restarts=2)
    ended = replace(failed, state="done", time_ns=5, dropped={"odd": 2})
    masked = msgspec.json.encode(replace(facts, to=f"otlp:endpoint=http://a:{MASK}@b"))
    encoded = [msgspec.json.encode(value) for value in (facts, checkpoint, files._Status(status=status))]
    ahead, names = b"%018d %018d\n" % (3, 12), b'{"loss": "train", "lr": "step"}'
    whole = [*enumerate(encoded), (3, ahead), (4, names), (5, b"")]
    done = msgspec.json.encode(replace(checkpoint, done=True))
    return [
        join_pieces(whole),
        join_pieces(whole[:5]),
        *(
            join_pieces([(0, masked), (2, msgspec.json.encode(files._Status(status=one)))])
            for one in (hangs, failed)
        ),
        join_pieces([(0, encoded[0]), (2, msgspec.json.encode(files._Status(status=ended)))]),
        join_pieces([(0, encoded[0]), (1, done), (2, encoded[2])]),
    ]


# --- what `--to` says ----------------------------------------------------------------------------

_TO: Final = (
    "jsonl:path=out.jsonl",
    "jsonl:path=a\\,b\\\\c,as=second",
    "console",
    "prometheus:port=9599,host=127.0.0.1,linger=2.5,buckets=2",
    "tensorboard: logdir = runs ,as=t.b-1",
    "otlp:endpoint=http://127.0.0.1:4318,protocol=http/protobuf",
    "wandb:project=mine,mode=offline,as=team",
)


def run_to(data: bytes) -> int:
    """Check that a text for `--to` is printed as it would be read again.

    All its readers call it by the same name.
    """
    text = data.decode("utf-8", "surrogateescape")
    _load_all()
    with _built_in_alone():
        try:
            found = choice.parse(text)
        except UsageError as error:
            _check_words(error)
            return 1
        assert choice.parse(str(found)) == found
        assert writers.name_of(text) == found.name
        writers.check_kinds([text])
        try:
            choice.check(found)
        except UsageError as error:
            _check_words(error)
    return 1


def _check_words(error: UsageError) -> None:
    refused(error, 60)
    assert str(error).isprintable()


@cache
def _load_all() -> None:
    """Load all kinds at once, so that loading is not counted for any input."""
    for kind in BUILT_IN:
        choice.load(kind)


@contextmanager
def _built_in_alone() -> Iterator[None]:
    """Looking for the backends of others takes milliseconds, and there are none."""
    usual = entry_points._entry_points
    entry_points._entry_points = lambda _: ()  # type: ignore[assignment]
    try:
        yield
    finally:
        entry_points._entry_points = usual


TARGETS: Final = (
    Target(
        name="writer",
        run=run_writer,
        form=Pieces({kind: Json() for kind in (0, 1, 2, 4)}),
        seeds=_folders,
        covers=(
            *(
                files.WriterFolder.taken,
                files.Unconfirmed.read,
                files._read,
                files.read_backends,
                files.writer_folders,
            ),
            *(
                AxisOwners.__init__,
                recorded_backends,
                shown,
                html_backends,
                export._rest,
                writers.Writers._read,
                writers.concluded,
            ),
            *(wording.backend, wording.backend_state, wording.shortfall, wording.undelivered, wording.looked_at_ns),
        ),
        base_bytes=4 * MIB,
        bytes_each=1_000,
        share=0.2,
    ),
    Target(
        name="writer_file",
        run=run_writer_file,
        form=Json(),
        seeds=lambda: [file for data in _folders() for _, file in split_pieces(data) if file],
        covers=(files.WriterFolder.taken, files.Unconfirmed.read, files._read, AxisOwners.__init__),
        base_bytes=1 * MIB,
        bytes_each=1_000,
    ),
    Target(
        name="to",
        run=run_to,
        form=Options(),
        seeds=lambda: [text.encode() for text in _TO],
        covers=(
            choice.parse,
            choice.check,
            choices._options,
            choices.convert,
            choices.Choice.__str__,
            writers.name_of,
        ),
        head=b"prometheus:",
        base_bytes=512 * KIB,
        bytes_each=400,
    ),
)
