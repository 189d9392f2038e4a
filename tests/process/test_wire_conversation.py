"""An aggregator as a stranger sees it: ZeroMQ, msgpack and docs/PROTOCOL.md, nothing of ours on the asking side."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

Socket = zmq.Socket[bytes]
TIMEOUT_MS = 10_000
pack, unpack = msgspec.msgpack.encode, msgspec.msgpack.decode


class Stranger:
    """The sockets of one peer that knows the control address."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._context: zmq.Context[Socket] = zmq.Context()
        self._opened: list[Socket] = []
        self.control = self.socket(zmq.DEALER, endpoint)

    def socket(self, kind: int, address: str) -> Socket:
        made = self._context.socket(kind)
        made.setsockopt(zmq.RCVTIMEO, TIMEOUT_MS)
        made.setsockopt(zmq.LINGER, 0)
        made.connect(address)
        self._opened.append(made)
        return made

    def ask(self, message: dict[str, object]) -> dict[str, Any]:
        return self.send(pack(message))

    def send(self, *parts: bytes) -> dict[str, Any]:
        self.control.send_multipart(parts)
        answer: dict[str, Any] = unpack(self.control.recv())
        return answer

    def subscribe(self, address: str, topic: bytes) -> Socket:
        made = self.socket(zmq.SUB, address)
        made.subscribe(topic)
        return made

    def close(self) -> None:
        for one in self._opened:
            one.close()
        self._context.term()


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    """Talks to a real `telemetry serve`, which is stopped afterwards."""
    command = [sys.executable, "-m", "telemetry", "serve", "--name", "wire", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = None
        while found is None:
            line = server.stderr.readline()
            assert line, "serve exited before it was ready"
            found = re.search(r"TELEMETRY_ENDPOINT=(\S+)", line)
        peer = Stranger(found[1])
        try:
            yield peer
        finally:
            peer.close()
            server.terminate()
            server.communicate(timeout=30)


NOT_UNDERSTOOD: list[tuple[tuple[bytes, ...], str, int]] = [
    ((pack({"type": "dance", "id": 7}),), "unknown_message", 7),
    ((pack({"type": "end", "id": 8, "producer": 5}),), "unknown_message", 8),
    ((pack({"type": "hello", "id": 9, "version": [2, 0]}),), "wrong_version", 9),
    ((pack({"type": "hello", "id": 10, "version": [2, 0], "producer": {"new": 1}}),), "wrong_version", 10),
    ((b"",), "unknown_message", 0),
    ((b"\xc1",), "unknown_message", 0),
    ((b"\x91" * 100_000,), "unknown_message", 0),
    ((b"two", b"parts"), "unknown_message", 0),
    ((bytes((4 << 20) + 1),), "unknown_message", 0),
]


def test_what_can_not_be_understood_is_answered(stranger: Stranger) -> None:
    """A message that cannot be understood is answered with the id of the request if it has one.

    The aggregator goes on.
    """
    for parts, code, request_id in NOT_UNDERSTOOD:
        answer = stranger.send(*parts)
        assert (answer["type"], answer["code"], answer["id"]) == ("error", code, request_id), parts[0][:40]
        assert stranger.ask({"type": "ping", "id": 99})["type"] == "pong"


def test_an_observer_reads_everything_there_is(stranger: Stranger) -> None:
    """Welcome, events in, a snapshot, the record stream, catch-up, history, and the end."""
    welcome = stranger.ask({"type": "hello", "id": 1, "mono_ns": 5})
    assert (welcome["type"], welcome["id"], welcome["echo_ns"], welcome["version"]) == ("welcome", 1, 5, [1, 6])
    snapshots = stranger.subscribe(welcome["snapshots"], b"sn/1")
    records = stranger.subscribe(welcome["records"], b"rec/1")
    assert snapshots.recv().startswith(b"sn/1\0\0\0\0")

    events = stranger.socket(zmq.XPUB, welcome["events"])
    assert events.recv() == b"\x01ev/1\0\0\0\0"
    batch = [[1, 0], "stranger", 0, 0, [0, 0], {}, [["sample", "s", 2.5], ["mark", "here", 7]], []]
    events.send(b"ev/1\0\0\0\0" + pack(batch))
    version, run_id, seq, producer, wall_ns, record = unpack(records.recv()[8:])
    assert (version, run_id, seq, producer, wall_ns) == ([1, 6], welcome["run_id"], 0, "stranger", 7)
    assert record[:3] == ["mark", "here", 7]

    status = stranger.ask({"type": "status", "id": 2})["snapshot"]
    assert [(series["name"], series["count"], series["max"]) for series in status["series"]] == [("s", 1, 2.5)]
    assert status["accounting"]["applied"] == 2
    caught_up = stranger.ask({"type": "catchup", "id": 3, "from_seq": 0})
    assert [one[2] for one in caught_up["records"]] == [0]
    assert (caught_up["next_seq"], caught_up["last_seq"]) == (1, 0)
    assert stranger.ask({"type": "history", "id": 4})["type"] == "history"
    assert stranger.ask({"type": "barrier", "id": 5, "producer": "stranger", "batches": 1})["batches"] == 1
    assert stranger.ask({"type": "watch", "id": 6, "pid": os.getpid()})["pid"] == os.getpid()
    assert stranger.ask({"type": "stop", "id": 7})["type"] == "stopping"
    while (last := unpack(snapshots.recv()[8:]))["state"] != "COMPLETE":
        assert last["state"] in ("INITIALIZE", "LIVE", "DRAINING")
    assert last["completeness"] == "complete"


def test_snapshots_can_be_piped_into_jq(stranger: Stranger, require_tool: Callable[[str], str]) -> None:
    """`telemetry tail` writes JSON lines and nothing else on stdout."""
    tail = [sys.executable, "-m", "telemetry", "tail", "--count", "2", stranger.endpoint]
    with subprocess.Popen(tail, stdout=subprocess.PIPE) as lines:
        query = [require_tool("jq"), "-r", "[.name, .state, .accounting.missing] | @csv"]
        answer = subprocess.run(query, stdin=lines.stdout, capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.splitlines() == ['"wire","INITIALIZE",0'] * 2
