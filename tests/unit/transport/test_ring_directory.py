"""Tests of the directory where ring files lie, and of which files are removed."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from telemetry.transport import ring_directory as module
from telemetry.transport.ring_directory import (
    is_on_this_host,
    list_rings,
    namespaces,
    remove_old,
    ring_directory,
)

HOUR_S = 3_600
ELSEWHERE = "29 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"


def mounts(path: Path, *, kind: str) -> str:
    """Return a line of mountinfo that says of what kind the file system of `path` is."""
    device = os.stat(path).st_dev
    return (
        f"{ELSEWHERE}31 29 {os.major(device)}:{os.minor(device)} / {path} rw shared:2 master:1 - {kind} none rw\n"
    )


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is read for the list of mounts."""
    listed = tmp_path / "mountinfo"
    monkeypatch.setattr(module, "_MOUNTS", listed)
    monkeypatch.setattr(module, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "run").mkdir(mode=0o700)
    return listed


def test_the_runtime_directory_if_it_is_a_tmpfs(told: Path, tmp_path: Path) -> None:
    """The runtime directory is used if it is a tmpfs, as it is private already."""
    told.write_text(mounts(tmp_path, kind="tmpfs"))
    assert ring_directory() == tmp_path / "run" / "telemetry"


def test_another_place_than_one_that_no_message_can_name(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The aggregator learns the path from a message, which is valid Unicode."""
    told.write_text(mounts(tmp_path, kind="tmpfs"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / os.fsdecode(b"\xff")))
    assert ring_directory() == tmp_path / f"telemetry-{os.getuid()}"


def test_nowhere_without_a_tmpfs(told: Path, tmp_path: Path) -> None:
    """A disk would make recording wait; an unreadable list of mounts counts as none."""
    told.write_text(mounts(tmp_path, kind="ext4"))
    assert ring_directory() is None
    told.unlink()
    assert ring_directory() is None


def test_a_directory_of_shared_memory_of_this_user_alone(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory of shared memory is used if nobody but this user can read it."""
    told.write_text(mounts(tmp_path, kind="tmpfs"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc/nowhere")
    found = ring_directory()
    assert found == tmp_path / f"telemetry-{os.getuid()}"
    assert found.stat().st_mode & 0o777 == 0o700
    found.chmod(0o755)
    assert ring_directory() is None


def test_rings_are_listed_where_a_producer_may_have_put_them(told: Path, tmp_path: Path) -> None:
    """Rings are listed from both directories, and not from one that others can write to."""
    assert list_rings() == set()
    runtime, shared = tmp_path / "run" / "telemetry", tmp_path / f"telemetry-{os.getuid()}"
    shared.mkdir(mode=0o700)
    for path in (runtime / "a.ring", shared / "b.ring", runtime / "a.defs", shared / "b.txt"):
        path.touch()
    assert list_rings() == {str(runtime / "a.ring"), str(shared / "b.ring")}
    shared.chmod(0o777)
    assert list_rings() == {str(runtime / "a.ring")}


def test_an_address_has_its_meaning_in_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path in those of files, a port or an abstract name in those of the network. Unknown without /proc."""
    for kind, number in (("mnt", 1), ("net", 2)):
        (tmp_path / kind).symlink_to(f"{kind}:[{number}]")
    monkeypatch.setattr(module, "_NAMESPACES", str(tmp_path))
    assert namespaces("ipc:///run/ctl") == "mnt:[1]"
    assert namespaces("tcp://127.0.0.1:5") == namespaces("ipc://@job") == "net:[2]"
    (tmp_path / "time").symlink_to("time:[3]")
    assert namespaces("ipc:///run/ctl") == "mnt:[1] time:[3]"
    (tmp_path / "mnt").unlink()
    assert namespaces("ipc:///run/ctl") == ""


def aged(path: Path, seconds: float) -> Path:
    path.write_bytes(b"")
    path.with_suffix(".defs").write_bytes(b"")
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def test_old_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    """Old files of dead processes are removed. Newer files and files that are no ring stay."""
    old, new = aged(tmp_path / "a.ring", 2 * HOUR_S), aged(tmp_path / "b.ring", HOUR_S / 2)
    other = aged(tmp_path / "c.txt", 2 * HOUR_S)
    for name, seconds in (("d.defs", 2 * HOUR_S), ("e.defs", HOUR_S / 2)):  # killed before they made a ring
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - seconds,) * 2)
    remove_old(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.defs", "b.ring", "c.defs", "c.txt", "e.defs"]
    assert (old.exists(), new.exists(), other.exists()) == (False, True, True)


def test_an_old_file_of_a_living_process_stays(tmp_path: Path) -> None:
    """An old file of a living process stays, as its process holds the lock."""
    old = aged(tmp_path / "a.ring", 2 * HOUR_S)
    child = os.fork()
    if child == 0:
        remove_old(tmp_path)
        os._exit(0)
    os.waitpid(child, 0)
    assert not old.exists()
    old = aged(tmp_path / "a.ring", 2 * HOUR_S)
    with old.open("rb+") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        child = os.fork()
        if child == 0:
            remove_old(tmp_path)
            os._exit(0)
        os.waitpid(child, 0)
        assert old.exists()


@pytest.mark.parametrize(
    ("endpoint", "is_here"),
    [
        ("ipc:///run/telemetry/ctl", True),
        ("tcp://127.0.0.1:5555", True),
        ("tcp://localhost:5555#key", True),
        ("tcp://node1:5555", False),
        ("tcp://10.0.0.7:5555#key", False),
        ("nowhere", False),
    ],
)
def test_an_aggregator_elsewhere_can_not_read_a_ring(endpoint: str, is_here: bool) -> None:
    """A ring is only for an aggregator on this host.

    Else the file would only take memory that outlives the process.
    """
    assert is_on_this_host(endpoint) is is_here
