"""Copies of artifacts: what is copied, what is refused, and what is left behind."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry.client import artifact_copies
from telemetry.client.artifact_copies import NotCopied, Stored, store
from telemetry.errors import EndpointError
from telemetry.wire.artifact_copies import uri_of

MB = 1_000_000
DATA = b"weights" * 500_000


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "job-r1"
    directory.mkdir(0o700)
    return directory


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(DATA)
    return path


def copied(path: Path, run: Path, most: int = 10 * MB, left: int = 100 * MB) -> Stored:
    return store(str(path), str(run), most, left)


def files(run: Path) -> list[Path]:
    return [path for path in run.rglob("*") if path.is_file()]


def test_a_copy_has_the_name_of_its_content(tmp_path: Path, run: Path) -> None:
    """A copy has the name of its content, and only its owner can read it. The original may go."""
    source = tmp_path / "model.bin"
    source.write_bytes(DATA)
    digest = hashlib.sha256(DATA).hexdigest()
    assert copied(source, run) == Stored(digest, len(DATA), has_changed=False)
    source.unlink()
    [copy] = files(run)
    assert copy.relative_to(run) == Path("artifacts/sha256", digest[:2], digest)
    assert copy.read_bytes() == DATA
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (copy, *copy.parents) if path.is_relative_to(run)}
    assert modes == {0o600, 0o700}


def test_the_same_content_is_stored_once(tmp_path: Path, run: Path) -> None:
    """The same content is stored once, under whatever name. A damaged copy is replaced."""
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(DATA)
    assert copied(tmp_path / "a", run).bytes == len(DATA)
    assert copied(tmp_path / "b", run).bytes == 0
    [copy] = files(run)
    copy.write_bytes(b"cut")
    assert copied(tmp_path / "b", run).bytes == len(DATA)
    assert [path.read_bytes() for path in files(run)] == [DATA]


def test_an_empty_file_is_a_copy_too(tmp_path: Path, run: Path) -> None:
    """An empty file has a copy whose hash is that of zero bytes."""
    (tmp_path / "empty").touch()
    assert copied(tmp_path / "empty", run).digest == hashlib.sha256().hexdigest()
    assert len(files(run)) == 1


def test_a_link_is_followed(tmp_path: Path, run: Path) -> None:
    """The copy is that of the file, never a link to it."""
    (tmp_path / "file").write_bytes(DATA)
    (tmp_path / "link").symlink_to("file")
    copied(tmp_path / "link", run)
    [copy] = files(run)
    assert not copy.is_symlink()


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, run: Path) -> None:
    """A pipe nobody writes to would block its reader for ever, and a device has no end."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero"), tmp_path / "folder"):
        with pytest.raises(NotCopied) as error:
            copied(path, run)
        assert error.value.reason == "not_a_file"
    with pytest.raises(FileNotFoundError):
        copied(tmp_path / "nothing", run)
    assert files(run) == []


@pytest.mark.parametrize(
    ("most", "left", "reason", "words"),
    [
        (3 * MB, 100 * MB, "too_large", "it has more than 3 MB .setting emit.artifact_copy_mb"),
        (10 * MB, 3 * MB, "run_full", "emit.artifact_total_mb"),
    ],
)
def test_limits_hold(source: Path, most: int, left: int, reason: str, words: str) -> None:
    """Limits hold for one file, and for all copies of the run."""
    run = source.parent / "job-r1"
    run.mkdir()
    with pytest.raises(NotCopied, match=words) as error:
        copied(source, run, most, left)
    assert error.value.reason == reason
    assert files(run) == []


def test_a_file_that_grows_beyond_the_limit_is_left(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy would be larger than the file was at first; what was copied is removed."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * MB)
    read = os.read

    def grow(file: int, count: int) -> bytes:
        with path.open("ab") as more:
            more.write(b"y" * count)
        return read(file, count)

    monkeypatch.setattr(artifact_copies.os, "read", grow)
    with pytest.raises(NotCopied) as error:
        copied(path, run, most=5 * MB)
    assert error.value.reason == "too_large"
    assert files(run) == []


def test_the_hash_is_that_of_the_copied_bytes(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the file changes meanwhile, the copy may be a mixture of both, and is marked as changed."""
    path = tmp_path / "file"
    path.write_bytes(DATA)
    read = os.read

    def change(file: int, count: int) -> bytes:
        found = read(file, count)
        path.write_bytes(DATA.upper() + b"more")
        return found

    monkeypatch.setattr(artifact_copies.os, "read", change)
    stored = copied(path, run)
    [copy] = files(run)
    assert stored.has_changed
    assert stored.digest == copy.name == hashlib.sha256(copy.read_bytes()).hexdigest()
    assert copy.read_bytes() not in (DATA, path.read_bytes())


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed copy leaves no file, whether the disk fills up or the journal needs the rest of it."""
    (tmp_path / "file").write_bytes(DATA)
    monkeypatch.setattr(artifact_copies.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match="full"):
        copied(tmp_path / "file", run)
    assert files(run) == []
    monkeypatch.setattr(artifact_copies.os, "statvfs", lambda _: SimpleNamespace(f_bavail=1, f_frsize=4_096))
    with pytest.raises(NotCopied) as error:
        copied(tmp_path / "file", run)
    assert error.value.reason == "disk_full"


def test_threads_may_copy_the_same_content_at_once(tmp_path: Path, run: Path) -> None:
    """Threads may copy the same content at once. The last one replaces the file by an equal one."""
    (tmp_path / "file").write_bytes(DATA)
    stored: list[Stored] = []
    threads = [threading.Thread(target=lambda: stored.append(copied(tmp_path / "file", run))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {one.digest for one in stored} == {hashlib.sha256(DATA).hexdigest()}
    assert len(stored) == 8
    assert [path.read_bytes() for path in files(run)] == [DATA]


@pytest.mark.parametrize("where", ["s3://bucket/key", "data:text/plain,x", "http://host/x", "file://other/x"])
def test_only_files_of_this_machine_can_be_copied(where: str) -> None:
    """The other ones stay references."""
    with pytest.raises(NotCopied, match="only a file of this machine"):
        artifact_copies._local(where)


def test_an_address_of_a_file_is_its_path() -> None:
    """The escapes in the address of a file become characters of its path. A path is made absolute."""
    assert artifact_copies._local("file:///a%20b/c") == "/a b/c"
    assert artifact_copies._local("file://localhost/a") == "/a"
    assert artifact_copies._local("a:b") == f"{os.getcwd()}/a:b"


def test_a_process_without_a_run_copies_nothing(tmp_path: Path) -> None:
    """A process without a run copies no file and gives no warning, as with any other record."""
    process: Any = SimpleNamespace(emit_config=None, ready=lambda: None)
    assert artifact_copies.ArtifactCopies(process).reference("a", tmp_path) is tmp_path


# --- which run -------------------------------------------------------------------------------------


class Process:
    """A process whose aggregator has said where its run is, or has not answered."""

    def __init__(self, directory: str, run_id: str = "r1", answers: bool = True) -> None:
        self.emit_config = SimpleNamespace(artifact_copy_mb=10, artifact_total_mb=100, start_timeout_s=0.01)
        self.run = SimpleNamespace(directory=directory, run_id=run_id) if answers else None
        self.waits = 0
        self.counts: dict[str, int] = {}

    def ready(self) -> Process:
        return self

    def wait_for_welcome(self, timeout_s: float) -> None:
        self.waits += 1
        raise EndpointError("no answer")

    def instrument(self, kind: str, name: str, unit: str, labels: dict[str, str]) -> Any:
        key = f"{kind} {name} {labels['reason']}"
        return SimpleNamespace(add=lambda: self.counts.update({key: self.counts.get(key, 0) + 1}))


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("directory", "words"),
    [
        ("/no/such/place/job-r1", "the run directory /no/such/place/job-r1 is not on this machine"),
        ("", "the run has no directory"),
        ("{run}-r2", "the run directory {run}-r2 is not on this machine"),
    ],
)
def test_a_run_on_another_machine_gets_references(
    source: Path, run: Path, caplog: pytest.LogCaptureFixture, directory: str, words: str
) -> None:
    """Each is counted, and one line says why."""
    process: Any = Process(directory.format(run=run))
    copies = artifact_copies.ArtifactCopies(process)
    assert [copies.reference("model", source) for _ in range(3)] == [source] * 3
    assert process.counts == {"counter telemetry.not_copied not_here": 3}
    assert lines(caplog) == [
        f"telemetry: artifact 'model' is recorded by reference, not as a copy: {words.format(run=run)}. Such "
        "artifacts are counted in telemetry.not_copied; this warning appears once"
    ]
    assert files(run) == []


def test_the_directory_of_another_run_gets_no_copies(source: Path, run: Path) -> None:
    """The directory of another run gets no copies.

    On another machine the same path may lead to it, and its name has the run id.
    """
    process: Any = Process(str(run), run_id="r2")
    assert artifact_copies.ArtifactCopies(process).reference("model", source) == source
    assert files(run) == []


def test_an_aggregator_that_never_answers_is_awaited_once(source: Path, run: Path) -> None:
    """Later calls return at once, with a reference."""
    process: Any = Process(str(run), answers=False)
    copies = artifact_copies.ArtifactCopies(process)
    assert [copies.reference("model", source) for _ in range(3)] == [source] * 3
    assert (process.waits, process.counts) == (1, {"counter telemetry.not_copied not_here": 3})


def test_the_reference_names_the_copy_and_the_file(source: Path, run: Path) -> None:
    """The file may be given in any way that a program has."""
    process: Any = Process(str(run))
    copies = artifact_copies.ArtifactCopies(process)
    found = {copies.reference("m", given) for given in (source, str(source), os.fsencode(source), source.as_uri())}
    assert found == {uri_of(str(run), hashlib.sha256(DATA).hexdigest(), "model.bin")}
    assert len(files(run)) == 1


def test_the_name_of_a_file_may_be_any_bytes(tmp_path: Path, run: Path) -> None:
    """A copy is never left without a reference to it."""
    process: Any = Process(str(run))
    path = os.fsencode(tmp_path) + b"/caf\xe9.png"
    Path(os.fsdecode(path)).write_bytes(DATA)
    copies = artifact_copies.ArtifactCopies(process)
    found = {copies.reference("m", given) for given in (path, Path(os.fsdecode(path)).as_uri())}
    assert found == {uri_of(str(run), hashlib.sha256(DATA).hexdigest(), os.fsdecode(b"caf\xe9.png"))}
    assert found.pop().endswith("#caf%E9.png")  # type: ignore[attr-defined]
    assert process.counts == {}


def test_all_copies_of_a_run_count_for_its_limit(source: Path, run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Copies of other processes count for the limit of the run, and copies of this one count at once."""
    process: Any = Process(str(run))
    process.emit_config.artifact_total_mb = 8
    copies = artifact_copies.ArtifactCopies(process)
    assert copies.reference("a", source) != source
    source.write_bytes(DATA[1:])
    assert copies.reference("b", source) != source
    source.write_bytes(DATA[2:])
    assert copies.reference("c", source) == source
    assert artifact_copies.ArtifactCopies(process).reference("d", source) == source
    assert process.counts == {"counter telemetry.not_copied run_full": 2}
    assert "the copies of the run have reached their limit (setting emit.artifact_total_mb)" in lines(caplog)[0]


def test_nothing_that_is_given_raises(run: Path, source: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A bad value is counted and passed on unchanged to the record, which checks it."""

    class Odd:
        def __fspath__(self) -> str:
            raise RuntimeError("no path today")

    process: Any = Process(str(run))
    copies = artifact_copies.ArtifactCopies(process)
    for given in (Odd(), 7, None, "a\0b", "missing", "file://["):
        assert copies.reference(7, given) is given
    assert sum(process.counts.values()) == 6
    assert all(line.isprintable() for line in lines(caplog))
    os.chmod(source, 0)
    if os.geteuid() == 0:  # root may read everything
        assert copies.reference("m", source) != source
    else:
        assert copies.reference("m", source) == source


def test_a_folder_of_copies_that_is_a_link_is_not_used(tmp_path: Path, run: Path, source: Path) -> None:
    """A folder of copies that is a link may lead out of a run directory that somebody else made."""
    (tmp_path / "elsewhere").mkdir()
    (run / "artifacts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="it is a link"):
        copied(source, run)
    assert list((tmp_path / "elsewhere").iterdir()) == []
