"""The memory of the compiled recorder: its files, and what becomes of them."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from telemetry.client import native_recorders as module
from telemetry.client.native_recorders import RingBuffer, build_recorders
from telemetry.client.recorders import ListBuffer, Recorders, discard

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


def test_without_the_compiled_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists take its place."""
    monkeypatch.setattr(module, "RECORDER", None)
    recorders = build_recorders()
    assert isinstance(recorders.buffer, ListBuffer)
    recorders.install(discard)
    recorders.record(0.0)(1.0)
    assert recorders.buffer.waiting == 0
