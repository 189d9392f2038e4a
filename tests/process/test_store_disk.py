"""Disks that really refuse: a file size limit of the kernel, and a process killed in the middle."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from telemetry.store.history import HistoryWriter
from telemetry.store.journal import BATCH, JournalReader, cut_torn_tail
from telemetry.store.records import RecordLog
from telemetry.wire.history import Interval

FULL = """
import json, resource, sys
from pathlib import Path
from telemetry.store.journal import JournalWriter
from telemetry.store.records import RecordLog
from telemetry.store.history import HistoryReader, HistoryWriter
from telemetry.wire.events import Mark, StreamRecord
from telemetry.wire.history import Interval

root = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
journal, records = JournalWriter(root / "journal", b"", 0), RecordLog(root / "records")
history = HistoryWriter(root / "history")
for at in range(300):
    journal.append([bytes(100)] * 3, at)
    if not records.failed:
        records.append([StreamRecord((1, 0), "r", at, "p", at, Mark("x" * 100))])
    history.append(Interval(at, at + 1))
journal.sync()
journal.close()
history.close()
print(json.dumps({
    "failed": [journal.failed, records.failed, history.failed],
    "records": records.next_seq,
    "intervals": len(list(HistoryReader(root / "history").intervals())),
}))
"""

FLOOD = """
import sys
from pathlib import Path
from telemetry.store.journal import JournalWriter
journal = JournalWriter(Path(sys.argv[1]), b"state", 0, segment_bytes=1_000_000)
number = 0
while True:
    if journal.full:
        journal.begin(b"state", number)
    journal.append([b"%020d" % number * 50] * 10, number)
    number += 1
    if number == 1_000:
        print("going", flush=True)
"""


LIVES = """
import sys
from pathlib import Path
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import BATCH, JournalReader, JournalWriter
from telemetry.store.records import RecordLog
from telemetry.wire.events import Mark, StreamRecord
from telemetry.wire.history import Interval

root = Path(sys.argv[1])
journal = JournalWriter(root / "journal", b"state", 0, segment_bytes=100_000)
history = HistoryWriter(root / "history", resume=True)
records = RecordLog(root / "records", resume=True)

def complete(number):
    if number == records.next_seq:
        records.append([StreamRecord((1, 0), "r", number, "p", number, Mark("x" * 100))])
    history.append(Interval(number, number + 1), number=number)

stamps = [item.time_ns for item in JournalReader(root / "journal").frames() if item.kind == BATCH]
begin = stamps[-1] + 1 if stamps else 0
assert begin - 1 <= history.rolls <= records.next_seq <= begin, (begin, history.rolls, records.next_seq)
for number in range(history.rolls, begin):
    complete(number)
print("going", flush=True)
for number in range(begin, begin + int(sys.argv[2])):
    if journal.full:
        journal.begin(b"state", number)
    journal.append([b"%020d" % number * 20], number)
    complete(number)
history.close()
assert (journal.failed, history.failed, records.failed) == ("", "", "")
"""


def test_a_file_size_limit_fails_the_writers_and_keeps_what_was_written(tmp_path: Path) -> None:
    """Each writer says "File too large", raises nothing, and its files end at a whole piece."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    facts = json.loads(done.stdout)
    assert facts["failed"] == ["File too large"] * 3
    reader = JournalReader(tmp_path / "journal")
    times = [item.time_ns for item in reader.frames() if item.kind == BATCH]
    assert times == [at for at in range(len(times) // 3) for _ in range(3)]
    assert len(times) > 30
    assert reader.torn_bytes == 0
    log = RecordLog(tmp_path / "records")
    assert [item.seq for item in log.read(0, 1_000)] == list(range(facts["records"]))
    assert 0 < facts["records"] < 300
    assert 0 < facts["intervals"] < 300


def test_sigkill_loses_nothing_that_was_appended(tmp_path: Path, wait_until: Callable[..., object]) -> None:
    """The journal holds a gapless prefix after `kill -9` in a flood, and at most one torn frame."""
    process = subprocess.Popen([sys.executable, "-c", FLOOD, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"going\n"
        wait_until(lambda: len(os.listdir(tmp_path)) > 3, what="a few segments")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    reader = JournalReader(tmp_path)
    found = [(item.time_ns, bytes(item.data[:20])) for item in reader.frames() if item.kind == BATCH]
    numbers = [number for number, _ in found]
    assert numbers[-1] >= 999
    assert numbers == [number for number in range(numbers[-1] + 1) for _ in range(10)][: len(numbers)]
    assert all(data == b"%020d" % number for number, data in found)
    assert (reader.dropped_segments, reader.damaged) == (0, False)
    assert cut_torn_tail(tmp_path) == reader.torn_bytes


def test_lives_that_end_by_sigkill_add_up_to_one(tmp_path: Path, wait_until: Callable[..., object]) -> None:
    """Killed at any moment and resumed, five times: journal, history and records are those of one life."""
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    log = tmp_path / "records" / "records.jsonl"
    for _ in range(5):
        enough = (log.stat().st_size if log.exists() else 0) + chance.randrange(200_000)
        life = subprocess.Popen([sys.executable, "-c", LIVES, str(tmp_path), "1000000"], stdout=subprocess.PIPE)
        assert life.stdout is not None
        with life.stdout:
            assert life.stdout.readline() == b"going\n", f"seed {seed}"
            wait_until(lambda enough=enough: log.exists() and log.stat().st_size >= enough, what="some records")
            life.send_signal(signal.SIGKILL)
            life.wait(timeout=30)
    subprocess.run([sys.executable, "-c", LIVES, str(tmp_path), "100"], timeout=60, check=True)
    reader = JournalReader(tmp_path / "journal")
    stamps = [item.time_ns for item in reader.frames() if item.kind == BATCH]
    count = len(stamps)
    assert (stamps, reader.torn_bytes, reader.damaged) == (list(range(count)), 0, False), f"seed {seed}"
    assert [item.seq for item in RecordLog(tmp_path / "records").read(0, 1 << 40)] == list(range(count))
    whole = HistoryWriter(tmp_path / "whole")
    for number in range(count):
        whole.append(Interval(number, number + 1))
    whole.close()
    found = {path.name: path.read_bytes() for path in (tmp_path / "history").iterdir()}
    assert found == {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}, f"seed {seed}"
