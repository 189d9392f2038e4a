"""Run directories get safe names, a `latest` link, and are found again by what people type."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.errors import RunDirectoryError, RunNotFoundError, UsageError
from telemetry.redaction import MASK
from telemetry.store.final_snapshot import read_final
from telemetry.store.run_directory import (
    LATEST,
    Manifest,
    RunDirectory,
    called,
    list_runs,
    manifest_for,
    resolve,
    slug,
)
from telemetry.wire.control import Welcome

NOON = 1_700_000_000_123_456_789


def made(root: Path, name: str, run_id: str, at_ns: int = NOON) -> RunDirectory:
    run = RunDirectory.create(root, name, run_id, at_ns)
    run.write_manifest(manifest_for(run, name, run_id, ["cmd"], "tcp://127.0.0.1:1"))
    return run


def test_the_name_says_what_and_when(tmp_path: Path) -> None:
    """Name, UTC time and id; the parts lie where the design says."""
    run = made(tmp_path / "runs", "load test", "k3x")
    assert run.path == tmp_path / "runs" / "load-test-20231114T221320Z-k3x"
    assert run.started_ns == NOON
    assert (run.final.name, run.manifest.name, run.hlog.name, run.log.name) == (
        "final_snapshot.json",
        "manifest.json",
        "history.hlog",
        "daemon.log",
    )
    assert {run.journal.name, run.history.name, run.records.name} == {"journal", "history", "records"}


def test_latest_points_to_the_newest(tmp_path: Path) -> None:
    """Each new run takes the link over; it is relative, so that the directory can be moved."""
    made(tmp_path, "a", "one")
    second = made(tmp_path, "b", "two")
    assert os.readlink(tmp_path / "latest") == second.path.name
    assert (tmp_path / "latest").resolve() == second.path
    assert {path.name for path in tmp_path.iterdir() if path.is_symlink()} == {"latest"}


def test_a_run_beside_others_leaves_latest_alone(tmp_path: Path) -> None:
    """A run that only looks at another, such as a replay, does not become `latest`."""
    first = made(tmp_path, "a", "one")
    RunDirectory.create(tmp_path, "b", "two", NOON, latest=False)
    assert (tmp_path / "latest").resolve() == first.path


LOCKING = """
import sys
from pathlib import Path
from telemetry.store.run_directory import RunDirectory
lock = RunDirectory(Path(sys.argv[1])).lock()
print("locked", flush=True)
sys.stdin.readline()
"""


def locking(run: RunDirectory) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", LOCKING, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "locked\n"
    return child


def test_one_process_has_a_run(tmp_path: Path) -> None:
    """A run is locked by one process, and no other gets the lock. SIGKILL frees it."""
    run = made(tmp_path, "a", "one")
    assert not run.locked()
    child = locking(run)
    assert run.locked()
    with pytest.raises(RunDirectoryError, match="is in use by a live aggregator"):
        run.lock()
    child.kill()
    child.communicate()
    assert not run.locked()
    lock = run.lock()
    assert run.locked()
    lock.release()
    lock.release()
    assert not run.locked()


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOSYS, errno.EBADF])
def test_where_there_are_no_locks_the_manifest_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """A process of this host that is gone has nothing; one that lives, or is on another host, may have it."""

    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "flock", refuse)
    run = RunDirectory.create(tmp_path, "a", "one", NOON)
    run.lock().release()
    assert not run.locked()
    manifest = manifest_for(run, "a", "one", [], "")
    run.write_manifest(manifest)
    assert run.locked()
    with pytest.raises(RunDirectoryError, match="live aggregator"):
        run.lock()
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as child:
        pass
    run.write_manifest(replace(manifest, pid=child.pid))
    assert not run.locked()
    run.lock().release()
    run.write_manifest(replace(manifest, pid=child.pid, host="elsewhere"))
    assert run.locked()


def test_a_directory_that_is_gone_can_not_be_locked(tmp_path: Path) -> None:
    """One clear error for who wants it, and nobody has it."""
    run = RunDirectory(tmp_path / "gone")
    assert not run.locked()
    with pytest.raises(RunDirectoryError, match="can't lock the run directory"):
        run.lock()


def test_a_dangling_latest_is_replaced(tmp_path: Path) -> None:
    """A link to a run that was removed is no obstacle."""
    (tmp_path / "latest").symlink_to("gone")
    run = made(tmp_path, "a", "one")
    assert (tmp_path / "latest").resolve() == run.path


def test_a_real_directory_called_latest_is_left_alone(tmp_path: Path) -> None:
    """A real directory called `latest` belongs to a user. The error names it, and no run is made."""
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest" / "precious").touch()
    with pytest.raises(RunDirectoryError, match="not replaced"):
        RunDirectory.create(tmp_path, "a", "one", NOON)
    assert [path.name for path in tmp_path.iterdir()] == ["latest"]
    assert (tmp_path / "latest" / "precious").exists()


def test_where_no_directory_can_be_made(tmp_path: Path) -> None:
    """A file in the way gives one clear line with a hint."""
    (tmp_path / "runs").touch()
    with pytest.raises(RunDirectoryError, match=r"can't create.*--dir"):
        RunDirectory.create(tmp_path / "runs", "a", "one", NOON)


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", "a b", ".", "x" * 65, "ü"])
def test_a_bad_run_id_is_refused(tmp_path: Path, run_id: str) -> None:
    """An id is part of a path and of file names."""
    with pytest.raises(UsageError, match="run id"):
        RunDirectory.create(tmp_path, "a", run_id, NOON)


@given(st.text(max_size=300))
def test_slugs_are_plain_file_names(name: str) -> None:
    """A slug is ASCII, not empty, not hidden, no path, and short, whatever the name."""
    found = slug(name)
    assert found.isascii()
    assert 0 < len(found) <= 80
    assert not set(found) & set("/\\ \0\n")
    assert found[0] not in ".-"
    assert slug(found) == found


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("Übung №1", "Ubung-No1"),
        ("日本", "run"),
        ("a.b_c-d", "a.b_c-d"),
        ("", "run"),
    ],
)
def test_slugs_of_known_names(name: str, wanted: str) -> None:
    """Accents are dropped, paths flattened, what has no ASCII becomes `run`."""
    assert slug(name) == wanted


def test_manifest_round_trip_with_secrets_masked(tmp_path: Path) -> None:
    """The manifest is strict JSON and reads back; secrets of command and settings are not in it."""
    run = RunDirectory.create(tmp_path, "a", "one", NOON)
    argv = ["cmd", "--api-key", "hunter2"]
    run.write_manifest(manifest_for(run, "a", "one", argv, "ipc:///x", config={"token": "hunter2", "n": 1}))
    assert b"hunter2" not in run.manifest.read_bytes()
    manifest = run.read_manifest()
    assert manifest.argv == ["cmd", "--api-key", MASK]
    assert manifest.config == {"token": MASK, "n": 1}
    assert (manifest.run_id, manifest.name, manifest.started_ns, manifest.pid) == ("one", "a", NOON, os.getpid())
    assert manifest.python == ".".join(map(str, sys.version_info[:3]))
    assert manifest.schema_version == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"run_id":1}'])
def test_a_damaged_manifest_is_named(tmp_path: Path, data: bytes) -> None:
    """The error of a damaged manifest is ours and names the file, whatever is wrong."""
    run = RunDirectory.create(tmp_path, "a", "one", NOON)
    with pytest.raises(RunDirectoryError, match="can't read"):
        run.read_manifest()
    run.manifest.write_bytes(data)
    with pytest.raises(RunDirectoryError, match="damaged"):
        run.read_manifest()
    run.manifest.write_bytes(msgspec.json.encode(Manifest(schema_version=9, run_id="one", name="a")))
    with pytest.raises(RunDirectoryError, match="schema version 9"):
        run.read_manifest()


def test_a_manifest_that_can_not_be_written(tmp_path: Path) -> None:
    """A directory that went away is one clear line."""
    run = RunDirectory.create(tmp_path, "a", "one", NOON)
    run.path.rmdir()
    with pytest.raises(RunDirectoryError, match="can't write"):
        run.write_manifest(Manifest(run_id="one", name="a"))


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    """Runs are listed by start time.

    Links, files and other directories are no runs, and a missing root has none.
    """
    made(tmp_path, "b", "two", NOON + 10**10)
    made(tmp_path, "a", "three", NOON + 2 * 10**10)
    made(tmp_path, "a", "one", NOON)
    (tmp_path / "other").mkdir()
    (tmp_path / "x-20231114T221320Z-file").touch()
    assert [run.run_id for run in list_runs(tmp_path)] == ["three", "two", "one"]
    assert list_runs(tmp_path / "none") == []
    with pytest.raises(RunDirectoryError, match="can't read"):
        list_runs(tmp_path / "x-20231114T221320Z-file")


def test_resolve_by_everything_people_type(tmp_path: Path) -> None:
    """A directory, a file in it, `latest`, an id, the directory's name, a name: its newest run."""
    old = made(tmp_path, "load test", "one", NOON)
    new = made(tmp_path, "load test", "two", NOON + 10**10)
    old.final.write_bytes(b"{}")
    (tmp_path / "link").symlink_to(old.path)
    for spec in (old.path, str(old.path), old.final, old.manifest, "one", old.path.name, tmp_path / "link"):
        assert resolve(spec, tmp_path).path == old.path
    for spec in ("latest", "two", "load test", "load-test", tmp_path / "latest"):
        assert resolve(spec, tmp_path).path == new.path
    assert resolve("one", tmp_path).started_ns == NOON // 10**9 * 10**9


def test_resolve_a_directory_of_another_name(tmp_path: Path) -> None:
    """A run that was renamed knows itself by its manifest; without one it is still a run."""
    made(tmp_path, "a", "one").path.rename(tmp_path / "kept")
    run = resolve(tmp_path / "kept", tmp_path)
    assert (run.run_id, run.slug, run.started_ns) == ("one", "a", NOON)
    run.manifest.unlink()
    run.final.touch()
    assert RunDirectory.open(run.path).run_id == ""


def test_what_is_not_found_names_what_comes_near(tmp_path: Path) -> None:
    """A typo gets a suggestion, an empty root says that it is empty."""
    with pytest.raises(RunNotFoundError, match="there are no runs in"):
        resolve("load", tmp_path)
    made(tmp_path, "load-test", "k3x9")
    with pytest.raises(RunNotFoundError, match="did you mean load-test"):
        resolve("laod-test", tmp_path)
    with pytest.raises(RunNotFoundError, match="the newest is load-test, run id k3x9"):
        resolve("???", tmp_path)
    with pytest.raises(RunNotFoundError, match="did you mean latest"):
        resolve("lates", tmp_path)
    with pytest.raises(RunDirectoryError, match="not a run directory"):
        RunDirectory.open(tmp_path)


def test_a_path_that_is_no_run_says_what_it_is(tmp_path: Path) -> None:
    """A folder, a folder of runs, and a file; with what a run has."""
    made(tmp_path, "load-test", "k3x9")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("")
    for path, said in (
        ("empty", "is a folder, but not a run (a run is a directory with manifest.json or final_snapshot.json)"),
        ("notes.txt", "is a file, not a run (a run is a directory with manifest.json or final_snapshot.json)"),
        ("", f"is a folder, but not a run (it holds 1 run: name one of them, and add --dir {tmp_path})"),
    ):
        with pytest.raises(RunNotFoundError) as caught:
            resolve(tmp_path / path, tmp_path / "elsewhere")
        assert str(caught.value) == f"{tmp_path / path} {said}"


def test_a_removed_run_leaves_nothing(tmp_path: Path) -> None:
    """`latest` points to the newest run left, a live run stays, and a link is not followed."""
    old, new = made(tmp_path, "a", "one"), made(tmp_path, "a", "two", at_ns=NOON + 10**9)
    (new.path / "deep").mkdir()
    (new.path / "deep" / "link").symlink_to(old.path)
    lock = new.lock()
    with pytest.raises(RunDirectoryError, match="in use by a live aggregator"):
        new.remove()
    lock.release()
    new.remove()
    assert {path.name for path in tmp_path.iterdir()} == {LATEST, old.path.name}
    assert (tmp_path / LATEST).resolve() == old.path
    (tmp_path / new.path.name).symlink_to(old.path)
    with pytest.raises(RunDirectoryError, match="is a link"):
        new.remove()
    old.remove()
    assert [path.name for path in tmp_path.iterdir()] == [new.path.name]


def test_a_working_directory_that_is_gone_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative place has no meaning then."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(RunDirectoryError, match="can't create"):
        RunDirectory.create(Path("runs"), "n", "id", NOON)


def test_a_journal_makes_a_run_of_a_directory_that_is_named_like_one(tmp_path: Path) -> None:
    """Manifest and result may be lost; any other directory that has a `journal` is none."""
    run = RunDirectory.create(tmp_path, "job", "r1", 10**18)
    run.journal.mkdir()
    for path in (run.path, tmp_path / "latest"):
        assert RunDirectory.open(path) == RunDirectory(run.path, "r1", "job", 10**18)
    assert resolve("latest", tmp_path).path == run.path
    (tmp_path / "notes" / "journal").mkdir(parents=True)
    with pytest.raises(RunDirectoryError, match="is not a run directory"):
        RunDirectory.open(tmp_path / "notes")


def test_a_run_is_found_by_the_name_that_its_program_gave_it(tmp_path: Path) -> None:
    """A run is found by its name, or by that of its directory while no run has such a name."""
    run = made(tmp_path, "first", "one")
    run.write_manifest(replace(run.read_manifest(), name="load test"))
    other = made(tmp_path, "other", "two", NOON + 10**9)
    assert (run.name, other.name) == ("load test", "other")
    assert resolve("load-test", tmp_path).run_id == resolve("load test", tmp_path).run_id == "one"
    assert resolve("first", tmp_path).run_id == "one"
    assert [found.run_id for found in called("first", list_runs(tmp_path))] == ["one"]
    made(tmp_path, "first", "three", NOON + 2 * 10**9)
    assert [found.run_id for found in called("first", list_runs(tmp_path))] == ["three"]
    with pytest.raises(RunNotFoundError, match="did you mean load-test"):
        resolve("load-tast", tmp_path)


@pytest.mark.parametrize("run_id", ["../x", "x/../../y", "..", ".", "", "a\0b", "a\n", "x" * 129, "é"])
def test_an_id_that_could_be_a_path_is_refused(tmp_path: Path, run_id: str) -> None:
    """Folders and files are named after ids. Each file that has one is refused when it is read."""
    run = RunDirectory(tmp_path)
    run.write_manifest(Manifest(run_id=run_id, name="n"))
    with pytest.raises(RunDirectoryError, match="run_id"):
        run.read_manifest()
    run.final.write_bytes(msgspec.json.encode({"schema_version": 1, "run_id": run_id, "name": "n"}))
    with pytest.raises(RunDirectoryError, match="run_id"):
        read_final(run.final)
    welcome = Welcome(run_id=run_id, name="n", epoch="e", state="LIVE", events="", snapshots="", records="")
    with pytest.raises(msgspec.ValidationError, match="run_id"):
        msgspec.msgpack.decode(msgspec.msgpack.encode(welcome), type=Welcome)


@pytest.mark.parametrize("run_id", ["0a1b2c3d", "x" * 128, "job-2026_a", "5f2c9a52-0d8e-4a53-8f65-0d1f6f3f0f5e"])
def test_other_ids_are_read(tmp_path: Path, run_id: str) -> None:
    """A manifest may have the id of another program."""
    run = RunDirectory(tmp_path)
    run.write_manifest(Manifest(run_id=run_id, name="n"))
    assert run.read_manifest().run_id == run_id
