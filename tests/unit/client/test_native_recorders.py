"""The memory of the compiled recorder: its files, and what becomes of them."""

from __future__ import annotations

import inspect
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from telemetry.client import native_recorders as module
from telemetry.client.native_recorders import RingBuffer, build_recorders
from telemetry.client.recorders import ListBuffer, Recorders, discard, python_recorders

pytestmark = pytest.mark.usefixtures("native")

BOUND = 5_000
FIRST_SLOTS = 65_536


@pytest.fixture
def recorders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorders]:
    """Recorders whose files lie in `tmp_path`."""
    monkeypatch.setattr(module, "ring_directory", lambda: tmp_path)
    made = build_recorders()
    yield made
    made.memory.remove()


def entries(path: Path) -> list[object]:
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack_from("<I", data)
        found.append(msgspec.msgpack.decode(data[4 : 4 + length]))
        data = data[4 + length :]
    return found


def test_files_of_a_producer(recorders: Recorders, tmp_path: Path) -> None:
    """For this user alone; definitions come after the rules of redaction, as soon as they are made."""
    path = Path(recorders.memory.open("p1", BOUND, [msgspec.msgpack.encode(["define", 0])]))
    recorders.memory.define(msgspec.msgpack.encode(["define", 1]))
    assert path == tmp_path / "p1.ring"
    assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {
        "p1.ring": 0o600,
        "p1.defs": 0o600,
    }
    recorders.memory.renew_rules()
    rules, *definitions, again = entries(tmp_path / "p1.defs")
    assert again == rules
    assert isinstance(rules, dict)
    assert set(rules) == {"secrets", "personal", "patterns"}
    assert definitions == [["define", 0], ["define", 1]]
    recorders.memory.remove()
    assert not list(tmp_path.iterdir())


def test_a_new_producer_begins_empty(recorders: Recorders, tmp_path: Path) -> None:
    """Rows and counts of the one before are not its own. Its files are, until somebody has read them."""
    recorders.memory.open("p1", BOUND, [])
    recorders.install(recorders.buffer.extend)
    record = recorders.record(0.0)
    record(1.0)
    record("no number")  # type: ignore[arg-type]
    assert (recorders.buffer.waiting, recorders.refused.total) == (1, 1)
    recorders.memory.open("p2", BOUND, [])
    assert (recorders.buffer.waiting, recorders.refused.total) == (0, 0)
    recorders.install(recorders.buffer.extend)
    record(2.0)
    assert list(recorders.buffer)[::2] == [0.0, 2.0]  # type: ignore[call-overload]
    assert {file.name for file in tmp_path.iterdir()} == {"p1.ring", "p1.defs", "p2.ring", "p2.defs"}


def test_without_a_place_it_works_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory ends with the process."""
    monkeypatch.setattr(module, "ring_directory", lambda: None)
    recorders = build_recorders()
    assert recorders.memory.open("p", BOUND, []) == ""
    recorders.install(recorders.buffer.extend)
    recorders.record(0.0)(1.0)
    assert recorders.buffer.waiting == 1
    recorders.memory.remove()
    assert recorders.buffer.waiting == 0


def test_a_directory_without_room_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full is not a reason to record nothing."""
    monkeypatch.setattr(module, "ring_directory", lambda: Path("/dev/full/none"))
    recorders = build_recorders()
    assert recorders.memory.open("p", BOUND, []) == ""


def test_a_full_ring_drops_the_newest(recorders: Recorders) -> None:
    """To the event; rows of a group all or none."""
    recorders.memory.open("p", BOUND, [])
    recorders.install(recorders.buffer.extend)
    record = recorders.record(0.0)
    for number in range(BOUND - 2):
        record(number, at_ns=number)
    recorders.put([1.0, 1, 1.0, 1.0, 2, 2.0, 1.0, 3, 3.0])
    record(-1.0)
    record(-2.0)
    record(-3.0)
    rows = list(recorders.buffer)  # type: ignore[call-overload]
    assert (rows[2], rows[-4], rows[-1], len(rows)) == (0.0, -1.0, -2.0, 3 * BOUND)
    assert recorders.buffer_full.take() == 4


def test_a_child_has_no_part_of_its_parents_ring(recorders: Recorders) -> None:
    """Even if it was forked by something that runs no hook of Python: nothing goes in, and nothing is removed."""
    recorders.memory.open("p", BOUND, [])
    recorders.install(recorders.buffer.extend)
    record = recorders.record(0.0)
    record(1.0)
    child = os.fork()
    if child == 0:
        record(2.0)
        buffer = recorders.buffer
        fine = buffer.waiting == 0 and list(buffer) == []  # type: ignore[call-overload]
        recorders.install(buffer.extend)
        record(3.0)
        os._exit(0 if fine and buffer.waiting == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert recorders.buffer.waiting == 1


def test_it_grows_while_another_thread_records(recorders: Recorders) -> None:
    """A large bound costs no memory before it is needed."""
    recorders.memory.open("p", 1_000_000, [])
    buffer = recorders.buffer
    assert isinstance(buffer, RingBuffer)
    recorders.install(buffer.extend)
    record = recorders.record(0.0)
    assert buffer.capacity == FIRST_SLOTS
    for number in range(3 * FIRST_SLOTS):
        record(number, at_ns=number)
    assert buffer.capacity == 4 * FIRST_SLOTS
    assert list(buffer)[1::3] == list(range(3 * FIRST_SLOTS))  # type: ignore[call-overload]


@pytest.mark.parametrize("more", [10 * BOUND, BOUND // 10])
def test_a_bound_may_change(recorders: Recorders, more: int) -> None:
    """A program that starts after its first event may ask for more room, or less."""
    recorders.memory.open("p", BOUND, [])
    buffer = recorders.buffer
    recorders.install(buffer.extend)
    record = recorders.record(0.0)
    record(0.0, at_ns=0)
    buffer.hold(more)
    for number in range(1, more + 10):
        record(number, at_ns=number)
    assert list(buffer)[1::3] == list(range(more))  # type: ignore[call-overload]
    assert recorders.buffer_full.total == 10


def test_memory_may_go_while_rows_are_read(recorders: Recorders) -> None:
    """Then the rows are dropped and counted."""
    recorders.memory.open("p", BOUND, [])

    class Number:
        def __float__(self) -> float:
            recorders.memory.remove()
            return 1.0

    recorders.buffer.extend([Number(), 1, 1.0])  # type: ignore[list-item]
    assert recorders.buffer_full.total == 1


def test_memory_may_go_with_the_target_before(recorders: Recorders) -> None:
    """Its end runs any code."""
    recorders.memory.open("p", BOUND, [])

    class Target:
        def __call__(self, rows: object) -> None:
            raise AssertionError

        def __del__(self) -> None:
            recorders.memory.remove()

    recorders.install(Target())
    recorders.install(recorders.buffer.extend)
    recorders.record(0.0)(1.0)
    assert recorders.buffer.waiting == 0


def test_rows_of_the_producer_before_may_still_be_in_the_works(recorders: Recorders) -> None:
    """Whoever takes them takes nothing of the next producer."""
    rows = 500_000
    recorders.memory.open("p1", rows, [])
    buffer = recorders.buffer
    buffer.extend([1.0, 5, 2.0] * rows)
    taken: list[int] = []
    thread = threading.Thread(target=lambda: taken.append(buffer.take(rows)[1]))
    thread.start()
    recorders.memory.open("p2", rows, [])
    buffer.extend([1.0, 5, 2.0])
    thread.join()
    assert (taken[0] in (0, 1, rows), buffer.waiting) == (True, taken[0] != 1)


def test_many_records_at_once_leave_a_ring_that_can_be_read(recorders: Recorders) -> None:
    """Of more bytes than it has. No position contradicts another, whenever the process dies."""
    path = recorders.memory.open("p", BOUND, [])
    recorders.buffer.new_records().extend([bytes(200_000)] * 10)
    with open(path, "rb") as file:
        records, size, writing = struct.unpack_from("<3Q", file.read(4_096), 320)
    assert (records, size) == (10, 10 * 200_004)
    assert 0 < writing <= 1 << 20


def test_a_thread_that_grows_the_ring_at_exit_holds_up_nobody() -> None:
    """It never gets the interpreter's lock again."""
    done = subprocess.run([sys.executable, "-c", _GROWS_AT_EXIT], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"released", b"")


_GROWS_AT_EXIT = """
import os, sys, threading
from telemetry.client.native_recorders import RingBuffer

ring, begun = RingBuffer(), threading.Event()
rows = [1.0, 5, 2.0] * 300_000

def grow():
    while True:
        ring.open("", "p", 16_000_000, 0, 0)
        begun.set()
        while ring.capacity < 16_000_000:
            ring.extend(rows)

class AtEnd:
    def __del__(self, ring=ring, write=os.write):
        ring.release()
        write(1, b"released")

sys.at_end = AtEnd()
threading.Thread(target=grow, daemon=True).start()
begun.wait()
"""


def test_signatures(recorders: Recorders) -> None:
    """As those in Python: all arguments have names."""
    for made, ours in ((recorders, build_recorders()), (python_recorders(), recorders)):
        record, add = inspect.signature(made.record(0.0)), inspect.signature(ours.add(0.0))
        assert (*record.parameters, *add.parameters) == ("value", "at_ns", "n", "at_ns")
        record.bind(value=1.0, at_ns=5)
        add.bind(n=1.0, at_ns=5)


def test_without_the_compiled_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists take its place."""
    monkeypatch.setattr(module, "RECORDER", None)
    recorders = build_recorders()
    assert isinstance(recorders.buffer, ListBuffer)
    recorders.install(discard)
    recorders.record(0.0)(1.0)
    assert recorders.buffer.waiting == 0
