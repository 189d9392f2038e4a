"""Live runs are found by their announcements, and dead ones are told from living ones."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from telemetry.errors import RunDirectoryError, RunNotFoundError
from telemetry.store.live_runs import LiveRun, announce, find_live, forget, list_live, withdraw


def run(run_id: str, name: str = "bench", pid: int | None = None, started_ns: int = 1) -> LiveRun:
    return LiveRun(
        run_id=run_id,
        name=name,
        pid=os.getpid() if pid is None else pid,
        endpoint=f"ipc:///x/{run_id}/ctl",
        dir=f"/runs/{run_id}",
        state="LIVE",
        started_ns=started_ns,
    )


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_announce_list_withdraw(tmp_path: Path) -> None:
    """Announced runs are listed, newest first; a withdrawn one is gone with its directory."""
    older, newer = run("one", started_ns=1), run("two", started_ns=2)
    announce(tmp_path, older)
    announce(tmp_path, newer)
    assert [found.run_id for found in list_live(tmp_path)] == ["two", "one"]
    assert all(found.alive for found in list_live(tmp_path))
    withdraw(tmp_path, newer)
    withdraw(tmp_path, newer)
    assert [found.run_id for found in list_live(tmp_path)] == ["one"]
    assert not (tmp_path / "two").exists()


def test_announcing_again_changes_the_state(tmp_path: Path) -> None:
    """The newest word counts."""
    announce(tmp_path, run("one"))
    announce(tmp_path, replace(run("one"), state="DRAINING"))
    assert [found.state for found in list_live(tmp_path)] == ["DRAINING"]


def test_the_directory_is_private_and_sockets_stay(tmp_path: Path) -> None:
    """The directory is 0700; withdrawing leaves what others put there."""
    announce(tmp_path, run("one"))
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o700
    (tmp_path / "one" / "ctl").touch()
    withdraw(tmp_path, run("one"))
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["ctl"]


def test_a_dead_process_is_flagged(tmp_path: Path) -> None:
    """A run whose process is gone is listed with `alive` false."""
    announce(tmp_path, run("one", pid=dead_pid()))
    assert [found.alive for found in list_live(tmp_path)] == [False]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_reused_pid_and_a_zombie_are_not_alive(tmp_path: Path) -> None:
    """A process that began at another time is another one, and a zombie answers nothing."""
    announce(tmp_path, run("reused"))
    path = tmp_path / "reused" / "run.json"
    path.write_bytes(path.read_bytes().replace(b'"process_started":', b'"process_started":9'))
    process = subprocess.Popen([sys.executable, "-S", "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()  # its end: the process exits, and nobody has waited for it yet
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    announce(tmp_path, run("zombie", pid=process.pid))
    assert {found.run_id: found.alive for found in list_live(tmp_path)} == {"reused": False, "zombie": False}
    process.communicate()


def leave_sockets(folder: Path) -> None:
    for name in ("ctl", "ev"):
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(folder / name))
        (folder / f"{name}.lock").touch()


def test_what_a_dead_aggregator_left_is_removed(short_dir: Path) -> None:
    """Announcement, sockets and locks go with their directory; a second time there is nothing to do."""
    announce(short_dir, run("gone", pid=dead_pid()))
    announce(short_dir, run("one"))
    leave_sockets(short_dir / "gone")
    assert forget(short_dir, "gone")
    assert [path.name for path in short_dir.iterdir()] == ["one"]
    assert forget(short_dir, "gone")


def test_what_lives_is_not_forgotten(short_dir: Path) -> None:
    """`forget` leaves a run with a live process, and a dead one whose address is being taken."""
    announce(short_dir, run("one"))
    leave_sockets(short_dir / "one")
    assert not forget(short_dir, "one")
    announce(short_dir, run("gone", pid=dead_pid()))
    leave_sockets(short_dir / "gone")
    with (short_dir / "gone" / "ev.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not forget(short_dir, "gone")
    assert all(len(list((short_dir / name).iterdir())) == 5 for name in ("one", "gone"))
    assert forget(short_dir, "gone")


def test_what_somebody_else_put_there_stays(tmp_path: Path) -> None:
    """A file that is none of ours keeps the directory, and that is said."""
    announce(tmp_path, run("gone", pid=dead_pid()))
    (tmp_path / "gone" / "precious").touch()
    assert not forget(tmp_path, "gone")
    assert [path.name for path in (tmp_path / "gone").iterdir()] == ["precious"]


def test_what_is_no_announcement_is_skipped(tmp_path: Path) -> None:
    """Broken files and other directories don't hide the good ones; no directory is no runs."""
    announce(tmp_path, run("one"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_bytes(b"\xff{")
    (tmp_path / "other").mkdir()
    assert [found.run_id for found in list_live(tmp_path)] == ["one"]
    assert list_live(tmp_path / "none") == []


def test_an_unwritable_place_is_one_clear_line(tmp_path: Path) -> None:
    """A file in the way is an error of the operator's kind."""
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="can't register the run"):
        announce(tmp_path / "file", run("one"))


def test_find_by_id_name_directory_and_latest(tmp_path: Path) -> None:
    """A name means its newest living run."""
    announce(tmp_path, run("one", "bench", started_ns=1))
    announce(tmp_path, run("two", "bench", started_ns=2))
    announce(tmp_path, run("gone", "bench", pid=dead_pid(), started_ns=3))
    for spec, wanted in (("one", "one"), ("bench", "two"), ("latest", "two"), (Path("/runs/one"), "one")):
        assert find_live(tmp_path, spec).run_id == wanted


def test_what_is_not_found_says_why(tmp_path: Path) -> None:
    """A dead run, a typo, something else, nothing at all: each has its own hint."""
    with pytest.raises(RunNotFoundError, match="no run is live on this host"):
        find_live(tmp_path, "x")
    announce(tmp_path, run("gone", "old", pid=dead_pid()))
    with pytest.raises(RunNotFoundError, match=r"died .*/runs/gone"):
        find_live(tmp_path, "gone")
    announce(tmp_path, run("one", "bench"))
    with pytest.raises(RunNotFoundError, match="did you mean bench"):
        find_live(tmp_path, "bnech")
    with pytest.raises(RunNotFoundError, match="telemetry ls"):
        find_live(tmp_path, "???")
