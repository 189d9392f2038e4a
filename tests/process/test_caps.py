"""Caps of what a run writes beside its journal: a flood fills no disk, and what it costs is counted and said."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from telemetry.store.records import RecordLog
from telemetry.wire.events import Mark

FLOOD = """
import telemetry
run = telemetry.start("flood")
n = run.counter("n")
for number in range(20_000):
    run.mark(f"{number} " + "x" * 300)
    n.add(1)
run.log({"loss": 1.0}, step=1)
summary = run.finish()
"""
HALF = """
import os, sys, time, telemetry
run = telemetry.start("flood")
for number in range(6_000):
    run.mark(f"{number} " + "x" * 300)
print("up", flush=True)
while not os.path.exists("go"):
    time.sleep(0.05)
for number in range(6_000, 8_000):
    run.mark(f"{number} " + "x" * 300)
run.finish()
"""
CAP = 1 << 20
SAID = "the record log is full (records.cap_bytes, 1.00 MiB)"
ENVIRON = {"TELEMETRY_RECORDS__CAP_BYTES": str(CAP)}


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_flood_of_marks_fills_no_disk(ground: Any) -> None:
    """The record log stays below its cap; what did not fit is counted as dropped, and every report says so."""
    program = ground.program("flood.py", FLOOD)
    _, out, err = ground.run("run", "--name", "flood", "--", sys.executable, program, environ=ENVIRON)
    assert SAID in out + err
    final = ground.final()
    run = Path(final["directory"])
    assert 0.9 * CAP < size_of(run / "records") <= CAP
    account = final["accounting"]
    dropped = account["dropped"]["records_full"]
    kept = RecordLog(run / "records").read(0, 100_000)
    assert (final["completeness"], account["emitted"]) == ("lossy", account["applied"] + dropped)
    marks = [record.record for record in kept if isinstance(record.record, Mark)]
    assert 19_000 > dropped > 10_000
    assert [int(mark.text.split()[0]) for mark in marks] == list(range(len(marks)))
    assert final["counters"][0]["value"] == 20_000
    assert [SAID in warning for warning in final["warnings"]] == [True]
    for form in ("text", "json", "html", "md"):
        _, told, _ = ground.run("report", "--format", form, environ=ENVIRON)
        told = told.replace("\\", "")  # Markdown
        assert SAID in told, form
        assert "records_full" in told, form


def test_a_run_that_goes_on_keeps_the_cap(ground: Any) -> None:
    """The cap survives the aggregator: the next one drops what follows, and nothing comes twice."""
    go = ground.folder / "go"
    program = ground.program("half.py", HALF)
    run = ground.popen(
        sys.executable, "-m", "telemetry", "run", "--name", "flood", "--", sys.executable, program, environ=ENVIRON
    )
    assert run.stdout.readline() == "up\n"
    directory = (ground.folder / "runs" / "latest").resolve()
    os.kill(json.loads((directory / "manifest.json").read_bytes())["pid"], signal.SIGKILL)
    go.touch()
    out, err = run.communicate(timeout=90)
    assert "restarted" in out + err
    assert size_of(directory / "records") <= CAP
    final = ground.final()
    account = final["accounting"]
    assert account["emitted"] == account["applied"] + account["dropped"]["records_full"]
    kept = RecordLog(directory / "records").read(0, 100_000)
    numbers = [int(record.record.text.split()[0]) for record in kept if isinstance(record.record, Mark)]
    assert len(set(numbers)) == len(numbers)
    assert len(numbers) + account["dropped"]["records_full"] == 8_000
