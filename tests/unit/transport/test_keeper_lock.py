"""Tests of the lock of a run's keeper, which is there to start another aggregator.

All see the lock, the end of the process ends it, and no child inherits it.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from telemetry.transport import keeper_lock as subject
from telemetry.transport.keeper_lock import KeeperLock, clear, keeper_of

KEEPS = (
    "from telemetry.transport.keeper_lock import KeeperLock as K; kept = K('r'); print('ok', flush=True); input()"
)


@pytest.fixture(autouse=True)
def runtime(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    return short_dir / "telemetry" / "r"


def test_it_is_seen_until_it_ends(runtime: Path) -> None:
    """A keeper that ends leaves nothing, not even the folder if its file was the last one in it."""
    assert keeper_of("r") == 0
    keeping = KeeperLock("r")
    assert keeper_of("r") == os.getpid()
    keeping.end()
    keeping.end()
    assert keeper_of("r") == 0
    assert not runtime.exists()


def test_it_ends_with_its_process(runtime: Path) -> None:
    """However that ends; what is left of it can be removed then, and not before."""
    with subprocess.Popen([sys.executable, "-c", KEEPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ok\n"
        assert keeper_of("r") == process.pid
        clear("r")
        assert keeper_of("r") == process.pid
        process.kill()
        process.wait()
    assert keeper_of("r") == 0
    assert list(runtime.iterdir())
    clear("r")
    assert not list(runtime.iterdir())


def test_a_forked_child_is_not_willing(runtime: Path) -> None:
    """A forked child is no keeper, as it has no thread for that and may live longer."""
    keeping = KeeperLock("r")
    ready, begun = os.pipe()
    over, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        keeping.end()
        os.write(begun, b"1")
        os.read(over, 1)
        os._exit(0)
    os.read(ready, 1)
    assert keeper_of("r") == os.getpid()
    path = next(runtime.iterdir())
    keeping._path = None  # as if killed: the file stays
    keeping.end()
    assert path.exists()
    assert keeper_of("r") == 0
    os.close(end)
    os.waitpid(child, 0)
    for fd in (ready, begun, over):
        os.close(fd)


def test_a_fork_in_mid_construction_inherits_nothing(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child forked while the lock is made inherits nothing, and other threads fork before or after.

    Else a run would be called kept for as long as the child lives.
    """
    children: list[int] = []
    alone: list[bool] = []

    def fork_first(fd: int, how: int) -> None:
        other = threading.Thread(target=lambda: alone.append(not subject._FORKING.acquire(blocking=False)))
        other.start()
        other.join()
        if (child := os.fork()) == 0:
            links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
            os._exit(any(os.path.realpath(link).endswith("keeper.lock") for link in links))
        children.append(os.waitpid(child, 0)[1])
        real(fd, how)

    real = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", fork_first)
    keeping = KeeperLock("r")
    assert (children, alone) == ([0], [True])
    assert subject._FORKING.acquire(blocking=False)
    subject._FORKING.release()
    keeping.end()


def test_whoever_just_looks_keeps_nobody_from_keeping(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking takes a lock for a moment: `ls` at the begin of a run must not make it one without a keeper."""
    looks: list[int] = []

    def looked_at(fd: int, how: int) -> None:
        looks.append(fd)
        if len(looks) < 3:
            raise BlockingIOError
        real(fd, how)

    real = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", looked_at)
    keeping = KeeperLock("r")
    assert keeper_of("r") == os.getpid()
    keeping.end()


def test_a_lock_that_another_has_is_not_waited_for(runtime: Path) -> None:
    """A lock that another keeper has is not waited for long, and its file stays with that keeper.

    The run is kept all the same.
    """
    first, second = KeeperLock("r"), KeeperLock("r")
    second.end()
    assert keeper_of("r") == os.getpid()
    first.end()
    assert not runtime.exists()


@pytest.mark.parametrize("content", ["", "x", "-1"])
def test_one_that_says_nothing_of_itself_is_no_keeper(runtime: Path, content: str) -> None:
    """A locked file that names no process has no keeper."""
    keeping = KeeperLock("r")
    next(runtime.iterdir()).write_text(content)
    assert keeper_of("r") == 0
    keeping.end()


def test_where_it_cannot_be_said_nobody_hears_of_it(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is kept all the same."""
    (short_dir / "file").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir / "file"))
    keeping = KeeperLock("r")
    assert keeper_of("r") == 0
    clear("r")
    keeping.end()
