"""Senders that are found by a pattern."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry import limits
from telemetry.errors import EndpointError
from telemetry.integrations.sender_addresses import (
    CommandProcesses,
    SendersOfCommand,
    await_listening,
    is_pattern,
    listening,
)


class Sockets:
    """Socket files: some that somebody listens at, some that are left over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: list[socket.socket] = []

    def bind(self, name: str, mtime_s: int, *, left_over: bool = False) -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        made = socket.socket(socket.AF_UNIX)
        made.bind(str(path))
        os.utime(path, (mtime_s, mtime_s))
        made.listen()
        if left_over:
            made.close()
        else:
            self._open.append(made)
        return f"ipc://{path}"

    def close(self) -> None:
        for one in self._open:
            one.close()


@pytest.fixture
def sockets(short_dir: Path) -> Iterator[Sockets]:
    made = Sockets(short_dir)
    yield made
    made.close()


def test_what_is_a_pattern() -> None:
    """An address is a pattern only if it is a path with a star."""
    assert is_pattern("ipc:///dev/shm/zmq_*/ev_pub_*")
    assert not is_pattern("ipc:///dev/shm/zmq_1/ev_pub_2")
    assert not is_pattern("tcp://*:5")


def test_the_newest_comes_first_and_what_is_left_over_not_at_all(sockets: Sockets) -> None:
    """A crashed sender leaves its file."""
    old, new = sockets.bind("a/ev_1", 1_000), sockets.bind("b/ev_2", 2_000)
    sockets.bind("c/ev_3", 3_000, left_over=True)
    sockets.bind("c/other", 4_000)
    assert listening([f"ipc://{sockets.folder}/*/ev_*"]) == [new, old]
    assert listening([f"ipc://{sockets.folder}/nowhere/*"]) == []


def test_no_more_than_a_few_are_asked(sockets: Sockets) -> None:
    """The newest: a folder may hold thousands."""
    first = sockets.bind("d/0", 1_000)
    for number in range(1, limits.FEED_PLACES + 1):
        sockets.bind(f"d/{number}", 1_000 + number, left_over=True)
    assert first not in listening([f"ipc://{sockets.folder}/d/*"])


def test_a_sender_is_waited_for(sockets: Sockets) -> None:
    """The feed waits until a sender listens or the caller says that it is over."""
    looks: list[int] = []

    def over() -> bool:
        looks.append(1)
        if len(looks) == 2:
            sockets.bind("e/x", 1_000)
        return False

    said: list[str] = []
    pattern = [f"ipc://{sockets.folder}/e/*"]
    assert await_listening(pattern, over, said.append, look_s=0.0) == f"ipc://{sockets.folder}/e/x"
    assert len(looks) == 2
    assert await_listening([f"ipc://{sockets.folder}/f/*"], lambda: True, said.append) == ""
    assert said == []


def test_several_senders_are_said(sockets: Sockets) -> None:
    """A message names the other senders if there are several, so the user knows which one is fed."""
    said: list[str] = []
    older = sockets.bind("g/1", 1_000)
    newest = sockets.bind("g/2", 2_000)
    assert await_listening([f"ipc://{sockets.folder}/g/*"], lambda: False, said.append) == newest
    assert said == [f"found 2 senders and using the newest; the others are {older}"]


def of_command(sockets: Sockets, ancestor: int, said: list[str], proc: str = "/proc") -> SendersOfCommand:
    """Return the senders of the processes that `ancestor` started.

    A sender of unknown origin counts from second 1,000 on.
    """
    processes = CommandProcesses(ancestor, "TELEMETRY_ENDPOINT", "ipc:///r", Path(proc))
    times = iter([0.0, *[100.0] * 9])
    return SendersOfCommand([f"ipc://{sockets.folder}/h/*"], processes, 1_000 * 10**9, said.append, times.__next__)


def test_each_sender_of_a_command_is_found_once(sockets: Sockets) -> None:
    """Whenever it comes and however old its file is; one that is bound again in its place is another."""
    said: list[str] = []
    senders = of_command(sockets, os.getppid(), said)
    first = sockets.bind("h/1", 1)
    assert senders.new() == [first]
    sockets.bind("h/2", 9_000, left_over=True)
    assert senders.new() == []
    second = sockets.bind("h/3", 500)
    assert senders.new() == [second]
    os.unlink(first.removeprefix("ipc://"))
    assert sockets.bind("h/1", 2_000) == first
    assert senders.new() == [first]
    assert said == []


def test_others_are_left_alone_and_named_when_nothing_else_comes(sockets: Sockets) -> None:
    """Senders of other commands are named in one message and never taken, even if no other comes."""
    said: list[str] = []
    senders = of_command(sockets, os.getpid(), said)
    other = sockets.bind("h/1", 9_000)
    assert senders.new() == senders.new() == []
    assert said == [
        f"no process of the command listens at ipc://{sockets.folder}/h/* yet; others listen at {other}; "
        "still waiting"
    ]


def test_where_no_system_tells_the_one_that_appeared_is_taken(sockets: Sockets) -> None:
    """A sender of unknown origin is taken if it is the only new one.

    Two new ones raise an error that names both, so no guess is made.
    """
    senders = of_command(sockets, os.getppid(), [], proc="/nowhere")
    sockets.bind("h/1", 999)
    assert senders.new() == []
    ours = sockets.bind("h/2", 1_001)
    assert (senders.new(), senders.new()) == ([ours], [])
    other = sockets.bind("h/3", 1_002)
    with pytest.raises(EndpointError, match=f"2 senders appeared.*{other}, {ours}.*write the address"):
        senders.new()


def test_a_sender_that_is_busy_is_asked_again(sockets: Sockets, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose queue is full tells nobody who it is."""
    senders = of_command(sockets, os.getppid(), [])
    ours = sockets.bind("h/1", 1)
    with monkeypatch.context() as patched:
        patched.setattr("telemetry.integrations.sender_addresses.listener", lambda path: 0)
        assert senders.new() == []
    assert senders.new() == [ours]
