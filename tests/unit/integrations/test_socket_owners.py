"""Whose a socket is, with real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry.integrations.sender_addresses import CommandProcesses, listener

VARIABLE = "TELEMETRY_ENDPOINT"
WAITS = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
MIDDLE = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={}, start_new_session=sys.argv[2] == "apart")
if sys.argv[3] == "stay":
    child.wait()
"""
LEADER = """
import os, subprocess, sys
middle = [sys.executable, "-c", sys.argv[2], sys.argv[1], "along", "go"]
subprocess.run(middle)
sys.stdin.read()
"""


class Started:
    """Processes that live as long as their input is open, whoever their parent is."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[str]] = []

    def pid(self, *words: str, env: dict[str, str] | None = None, apart: bool = False) -> int:
        """The process that says its id."""
        child = subprocess.Popen(
            [sys.executable, "-c", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=apart,
        )
        self._children.append(child)
        assert child.stdout is not None
        return int(child.stdout.readline())

    def close(self) -> None:
        for child in self._children:
            child.communicate()


@pytest.fixture
def started() -> Iterator[Started]:
    made = Started()
    yield made
    made.close()


def test_descendants_are_the_commands(started: Started) -> None:
    """Children and theirs, in whatever session and with no variable at all; strangers are not."""
    ours = CommandProcesses(os.getpid(), VARIABLE, "ipc:///a")
    for words in ((WAITS,), (MIDDLE, WAITS, "along", "stay"), (MIDDLE, WAITS, "apart", "stay")):
        assert ours.own(started.pid(*words, env={}))
    assert ours.known
    assert not any(map(ours.own, (0, 1, -1, os.getpid(), os.getppid())))


def test_an_orphan_is_known_by_its_environment_or_its_session(started: Started) -> None:
    """A process without its parent is known by the address in its environment or by its session.

    One with another address in another session is not the command's.
    """
    orphan = (MIDDLE.replace("env={}, ", ""), WAITS, "apart", "go")
    endpoint = {VARIABLE: "ipc:///a"}
    pid = started.pid(*orphan, env=endpoint)
    stranger = CommandProcesses(1 << 30, VARIABLE, "ipc:///a")
    assert stranger.own(pid)
    assert not CommandProcesses(1 << 30, VARIABLE, "ipc:///ab").own(pid)
    led = started.pid(LEADER, WAITS, MIDDLE, env={}, apart=True)
    assert CommandProcesses(os.getpid(), VARIABLE, "ipc:///a").own(led)
    assert not stranger.own(led)


def test_one_that_is_gone_is_nobodys() -> None:
    """A process that has ended belongs to no command, because nothing of it can be read."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert not CommandProcesses(os.getpid(), VARIABLE, "ipc:///a").own(child.pid)


def test_who_listens_is_the_systems_word(short_dir: Path) -> None:
    """`listener` returns the process that the system names.

    It returns `None` without a listener, also where a socket file is left over.
    """
    path = str(short_dir / "s")
    assert listener(path) is None
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)
        assert listener(path) is None
        made.listen(0)
        assert listener(path) == os.getpid()
        waiting = []
        for _ in range(3):
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)
            if waiting[-1].connect_ex(path):
                break
        assert listener(path) == 0
        for one in waiting:
            one.close()
    assert listener(path) is None
