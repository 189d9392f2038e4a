"""The memory of the compiled recorder: its files, and what becomes of them."""

from __future__ import annotations

import inspect
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from telemetry.client import native_recorders as module
from telemetry.client.native_recorders import RingBuffer, build_recorders
from telemetry.client.recorders import ListBuffer, Recorders, discard, python_recorders
from telemetry.store.ring_file import RingFile
from telemetry.transport.ring_directory import namespaces
from telemetry.wire.control import Hello
from telemetry.wire.rings import Introduction

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
    """The files are readable by this user alone.

    Definitions follow the rules of redaction, as soon as they are made.
    """
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


def test_the_reader_takes_the_checksums_of_batches(recorders: Recorders) -> None:
    """Both sides compute them alike, also of large numbers."""
    path = recorders.memory.open("p1", BOUND, [])
    for seq in range(3):
        recorders.buffer.note_batch(seq, 10 * seq, time.monotonic_ns(), time.time_ns())
    fd = os.open(path, os.O_RDONLY)
    try:
        assert sorted(RingFile(fd, path, "p1").ends) == [0, 1, 2]
    finally:
        os.close(fd)


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
    """A full ring drops exactly the newest events. Rows of a group are dropped all or none."""
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
    """A forked child adds no event to its parent's ring and removes none.

    This holds even if the fork ran no hook of Python.
    """
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
    """Rows are dropped and counted if the memory goes while they are read."""
    recorders.memory.open("p", BOUND, [])

    class Number:
        def __float__(self) -> float:
            recorders.memory.remove()
            return 1.0

    recorders.buffer.extend([Number(), 1, 1.0])  # type: ignore[list-item]
    assert recorders.buffer_full.total == 1


def test_memory_may_go_with_the_target_before(recorders: Recorders) -> None:
    """The end of the previous target runs any code, so the memory may go with it."""
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
    """A reader that still takes rows of the previous producer takes none of the next producer."""
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
    """Many records of more bytes than the ring has leave it readable.

    Its positions stay consistent, whenever the process dies.
    """
    path = recorders.memory.open("p", BOUND, [])
    recorders.buffer.new_records().extend([bytes(200_000)] * 10)
    with open(path, "rb") as file:
        records, size, writing = struct.unpack_from("<3Q", file.read(4_096), 320)
    assert (records, size) == (10, 10 * 200_004)
    assert 0 < writing <= 1 << 20


def test_a_thread_that_grows_the_ring_at_exit_holds_up_nobody() -> None:
    """A thread that grows the ring at exit never gets the interpreter's lock again.

    The exit does not wait for the thread.
    """
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
    """The recorders have the same signatures in C and in Python, and all arguments have names."""
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


def test_requests_are_counted_for_whoever_finds_the_file(recorders: Recorders) -> None:
    """The file counts requests that ended, and requests that are in records.

    Their numbers go on from one producer to the next.
    """
    assert [recorders.next_request() for _ in range(2)] == [0, 1]
    path = recorders.memory.open("p", BOUND, [])
    assert [recorders.next_request() for _ in range(3)] == [2, 3, 4]
    recorders.requests_logged(2)
    # read by another process: closing its file here would drop the lock
    head = subprocess.run(["head", "-c", "4096", path], capture_output=True, check=True).stdout
    assert struct.unpack_from("<2Q", head, 344) == (3, 2)
    recorders.memory.open("q", BOUND, [])
    assert recorders.next_request() == 5
    python = python_recorders()
    assert ([python.next_request() for _ in range(2)], python.requests_logged(1)) == ([0, 1], None)


def test_a_producer_introduces_itself_beside_its_ring(recorders: Recorders, tmp_path: Path) -> None:
    """First of all, with the path of the ring and the address it records to."""
    hello = Hello(producer="p1", name="job", pid=7)
    path = recorders.memory.open("p1", BOUND, [], hello, "ipc:///run/ctl")
    introduction, rules = entries(tmp_path / "p1.defs")
    assert msgspec.convert(introduction, Introduction) == Introduction(
        replace(hello, ring=path), "ipc:///run/ctl", namespaces("ipc:///run/ctl")
    )
    assert isinstance(rules, dict)


def test_there_is_no_file_for_an_aggregator_elsewhere(recorders: Recorders, tmp_path: Path) -> None:
    """An aggregator on another machine gets no file, since it could not read it."""
    assert recorders.memory.open("p1", BOUND, [], Hello(producer="p1"), "tcp://node1:5555") == ""
    assert not list(tmp_path.iterdir())


def test_a_live_process_touches_its_file_once_a_minute(tmp_path: Path, require_tool: Callable[[str], str]) -> None:
    """A live process touches its file once a minute.

    Files of long dead processes differ by their time from those of silent live ones.
    """
    library = tmp_path / "clock.so"
    source = tmp_path / "clock.c"
    source.write_text(_CLOCK)
    subprocess.run([require_tool("gcc"), "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    done = subprocess.run(
        [sys.executable, "-c", _TOUCHES, str(tmp_path)],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["False", "False", "True", "False", "True"], "")


_CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long ahead_s;

void set_ahead(long seconds) { ahead_s = seconds; }

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_MONOTONIC)
        now->tv_sec += ahead_s;
    return failed;
}
"""
_TOUCHES = """
import ctypes, os, sys
from pathlib import Path
from telemetry.client import native_recorders as module

module.ring_directory = lambda: Path(sys.argv[1])
recorders = module.build_recorders()
path = recorders.memory.open("p", 5_000, [])

def is_touched(seconds):
    ctypes.CDLL(os.environ["LD_PRELOAD"]).set_ahead(seconds)
    recorders.buffer.take(1)
    touched = os.stat(path).st_mtime > 0
    os.utime(path, (0, 0))
    return touched

os.utime(path, (0, 0))
for seconds in (0, 50, 70, 120, 140):
    print(is_touched(seconds))
recorders.memory.remove()
"""
