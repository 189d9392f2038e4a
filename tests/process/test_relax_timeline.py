"""Timers and timeline events of Relax in the trace files of a real run."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.process.conftest import Ground
from tests.trace_checker import problems

PROGRAM = """
import os, threading, time
import telemetry
from telemetry.compat.relax import Timer, TimelineTraceAdapter, record_timeline, timer

def event(kind, ts, name="rollout"):
    return {"name": name, "ph": kind, "ts": ts, "pid": os.getpid(), "tid": threading.get_ident()}

telemetry.end_step(99)
ts = time.time_ns() // 1_000
record_timeline(100, [event("B", ts)])
time.sleep(0.02)
record_timeline(100, [event("E", ts + 20_000)])
with timer("update"):
    time.sleep(0.01)
events = Timer().log_record_and_clear(100)
adapter = TimelineTraceAdapter("unused")
adapter.add_events(events)
adapter.dump(100)
telemetry.end_step(100)

record_timeline(101, [event("E", ts, "never began"), event("B", ts, "never ended")])
with timer("update"):
    pass
Timer().log_record_and_clear(101)
telemetry.end_step(101)
with timer("after the last step"):
    pass
"""


def slices(data: bytes) -> list[dict[str, Any]]:
    """Return the spans of a trace file that the checker has no objection to."""
    assert problems(data) == []
    return [event for event in json.loads(data)["traceEvents"] if event.get("cat") == "span"]


def test_a_begin_and_an_end_are_in_the_file_of_their_step(ground: Ground) -> None:
    """The file of the next step has only its own."""
    program = ground.program("program.py", PROGRAM)
    code, _, err = ground.run("run", "--timeline-dir", "traces", "--strict", "--", sys.executable, program)
    assert code == 0, err
    folder = ground.folder / "traces"

    rollout, update = slices((folder / "timeline_step_100.json").read_bytes())
    assert (rollout["name"], rollout["ph"], rollout["args"]) == ("rollout", "X", {"step": "100"})
    assert abs(rollout["dur"] - 20_000) < 1
    assert (update["name"], update["args"]) == ("update", {"step": "100"})
    assert update["dur"] >= 10_000
    assert update["ts"] >= rollout["ts"] + rollout["dur"] - 1_000
    [later] = slices((folder / "timeline_step_101.json").read_bytes())
    assert (later["name"], later["args"]) == ("update", {"step": "101"})

    whole = (folder / "timeline.json").read_bytes()
    assert len(slices(whole)) == 4
    texts = [event["name"] for event in json.loads(whole)["traceEvents"] if event["ph"] == "i"]
    assert sorted(texts) == ["a begin without an end: never ended", "an end without a begin: never began"]
    assert "an end without a begin: 'never began'" in err
    assert "a begin without an end: 'never ended'" in err
    series = {stat["name"]: stat["count"] for stat in ground.final()["series"]}
    assert series == {"span.rollout": 1, "span.update": 2, "span.after the last step": 1}
    assert not (ground.folder / "unused").exists()
