"""One child process that is looked after: real children."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from telemetry import limits
from telemetry.supervise.child import Child, ChildPolicy

READY = "import os, sys, time; print('ready', os.getpid(), file=sys.stderr, flush=True);"
WRITER = ChildPolicy("writer", restart_codes=frozenset({1}), told_codes=frozenset({6}))
DEADLINE_S = 30.0


class Nearby:
    """Companions that are small programs, and what they say."""

    def __init__(self) -> None:
        self.said: queue.Queue[str] = queue.Queue()
        self.made: list[Child] = []

    def begin(self, program: str, policy: ChildPolicy = WRITER, **options: Any) -> Child:
        self.made.append(Child("a\x1bb", [sys.executable, "-c", program], policy, self.said.put, **options))
        return self.made[-1]

    def hear(self) -> str:
        return self.said.get(timeout=DEADLINE_S)

    def ready(self) -> int:
        """The process id of a program that says READY."""
        word, pid = self.hear().split()
        assert word == "ready"
        return int(pid)


@pytest.fixture
def nearby() -> Iterator[Nearby]:
    made = Nearby()
    yield made
    for one in made.made:
        one.kill()


def ends(one: Child) -> bool:
    return one.wait(time.monotonic() + DEADLINE_S)


def test_another_takes_the_place_of_one_that_was_killed(nearby: Nearby) -> None:
    """A killed writer is replaced, with a message and a count. Its number is then the new one's."""
    one = nearby.begin(READY + "time.sleep(60)")
    first = nearby.ready()
    os.kill(first, signal.SIGKILL)
    assert nearby.hear() == "a\\x1bb: the writer was killed by signal 9; it is started again"
    second = nearby.ready()
    assert (second != first, one.pid, one.restarts, one.ended) == (True, second, 1, False)


def test_signals_reach_the_one_that_took_the_place_as_well(nearby: Nearby) -> None:
    """A replacement has only SIGTERM blocked, as its predecessor.

    Signals that the watching thread blocks are not blocked in the children that it starts.
    """
    mask = "print(*signal.pthread_sigmask(signal.SIG_BLOCK, []), sep=',', file=sys.stderr, flush=True);"
    policy = ChildPolicy("writer", holds_term=True)
    nearby.begin(f"import signal; {READY} {mask} time.sleep(60)", policy)
    first, blocked = nearby.ready(), nearby.hear()
    os.kill(first, signal.SIGKILL)
    nearby.hear()
    nearby.ready()
    assert nearby.hear() == blocked == str(int(signal.SIGTERM))


@pytest.mark.parametrize(("code", "starts"), [(0, 1), (6, 1), (3, 1), (1, limits.RESTARTS + 1)])
def test_exit_codes(nearby: Nearby, code: int, starts: int) -> None:
    """A child is restarted only for some exit codes, and a limited number of times.

    Errors that the process reported itself are not repeated.
    """
    one = nearby.begin(f"import sys; print('there', file=sys.stderr); sys.exit({code})")
    assert ends(one)
    said = [nearby.hear() for _ in range(nearby.said.qsize())]
    assert said.count("there") == starts
    assert (one.code, one.restarts) == (code, starts - 1)
    who = "a\\x1bb: the writer exited with code"
    again = [f"{who} 1; it is started again"] * limits.RESTARTS + [f"{who} 1"]
    assert [line for line in said if line != "there"] == {3: [f"{who} 3"], 1: again}.get(code, [])


def test_one_that_lasted_has_all_restarts_again(nearby: Nearby, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it has died before."""
    monkeypatch.setattr(limits, "RESTARTS", 1)
    one = nearby.begin(READY + "time.sleep(60)", ChildPolicy("writer", lasts_s=0.0))
    for _ in range(3):
        os.kill(nearby.ready(), signal.SIGKILL)
        assert nearby.hear().endswith("; it is started again")
    nearby.ready()
    assert one.restarts == 3


def test_who_is_told_to_end_while_it_waits_to_be_started_is_not(nearby: Nearby) -> None:
    """The pause before a restart does not hold up the end."""
    policy = ChildPolicy("writer", restart_codes=frozenset({1}), pause_s=60.0)
    one = nearby.begin("import sys; sys.exit(1)", policy)
    assert [nearby.hear() for _ in range(2)] == ["a\\x1bb: the writer exited with code 1; it is started again"] * 2
    one.ask_to_end()
    assert ends(one)
    assert (one.code, one.restarts) == (1, 1)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTERM])
def test_one_that_hears_nothing_is_killed_with_what_it_started(nearby: Nearby, number: int) -> None:
    """A child that does not end is killed with its own children.

    It may have gone already while those still hold the output.
    """
    child = "import subprocess; c = subprocess.Popen(['sleep', '60'], stderr=2);"
    one = nearby.begin(READY + child + "print('ready', c.pid, file=sys.stderr, flush=True); time.sleep(60)")
    pid, grandchild = nearby.ready(), nearby.ready()
    os.kill(pid, number)
    one.ask_to_end()
    assert not one.wait(time.monotonic() + 0.05)
    one.kill()
    assert one.ended
    assert gone(grandchild)
    assert nearby.said.empty()


def test_what_one_started_is_gone_before_another_is_started(nearby: Nearby) -> None:
    """Two of them would write the same files."""
    child = "import subprocess; c = subprocess.Popen(['sleep', '60'], stderr=subprocess.DEVNULL);"
    nearby.begin(READY + child + "print('ready', c.pid, file=sys.stderr, flush=True); time.sleep(60)")
    pid, grandchild = nearby.ready(), nearby.ready()
    os.kill(pid, signal.SIGKILL)
    assert nearby.hear().endswith("is started again")
    assert gone(grandchild)


def gone(pid: int) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while _alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_it_runs_where_and_with_what_it_is_given(nearby: Nearby, tmp_path: Path) -> None:
    """A restart is the same, wherever this process has gone since."""
    says = "import os, sys; print(os.getcwd(), os.environ.get('X'), file=sys.stderr)"
    one = nearby.begin(says, environment={"X": "y"}, folder=str(tmp_path))
    assert nearby.hear() == f"{tmp_path} y"
    assert ends(one)


def test_one_whose_parent_ended_before_it_began_knows_the_parent(
    tmp_path: Path, wait_until: Callable[..., object]
) -> None:
    """The system names another process as its parent then, and the child would never end."""
    child = (
        "import os, pathlib, time; from telemetry.supervise.parent import parent_pid\n"
        f"while os.getppid() == {{parent}}: time.sleep(0.01)\n"
        f"pathlib.Path({str(tmp_path)!r}, 'new').write_text(str(parent_pid()))\n"
        f"os.rename({str(tmp_path / 'new')!r}, {str(tmp_path / 'pid')!r})"
    )
    parent = (
        "import os, sys; from telemetry.supervise.child import Child, ChildPolicy\n"
        f"child = {child!r}.replace('{{parent}}', str(os.getpid()))\n"
        "Child('a', [sys.executable, '-c', child], ChildPolicy('writer'), print)\n"
        "os._exit(0)"
    )
    with subprocess.Popen([sys.executable, "-c", parent]) as process:
        pass
    wait_until((tmp_path / "pid").exists, DEADLINE_S, "an answer of the child")
    assert (tmp_path / "pid").read_text() == str(process.pid)


def test_one_that_can_t_be_started(nearby: Nearby, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raises the first time, and is said later."""
    with pytest.raises(FileNotFoundError):
        nearby.begin("", folder=str(tmp_path / "gone"))
    place = tmp_path / "place"
    place.mkdir()
    one = nearby.begin(READY + "time.sleep(60)", folder=str(place))
    pid = nearby.ready()
    place.rmdir()
    os.kill(pid, signal.SIGKILL)
    assert ends(one)
    said = [nearby.hear() for _ in range(2)]
    assert said[1] == "can't start a\\x1bb: the writer: No such file or directory"
    assert (one.code, one.restarts) == (-signal.SIGKILL, 0)


def test_without_a_thread_to_look_after_it_there_is_none(nearby: Nearby, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that was begun is ended again."""

    def fail(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", fail)
    with pytest.raises(OSError, match="can't start new thread"):
        nearby.begin("import time; time.sleep(60)")
