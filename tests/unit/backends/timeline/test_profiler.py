"""Traces of torch.profiler on the clock of a run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from telemetry.backends.timeline.profiler import profiler_events
from telemetry.errors import UsageError

ORIGIN = 1_700_000_000 * 10**9
EVENTS: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 5, "tid": 0, "args": {"name": "python"}},
    {"ph": "X", "name": "aten::mm", "pid": 5, "tid": 1, "ts": 2_000.5, "dur": 3.0},
    {"ph": "s", "id": 9, "name": "fwd", "pid": 5, "tid": 1, "ts": 2_001.0},
    {"ph": "X", "name": "on a stream", "pid": "stream 7", "tid": 1, "ts": 2_002.0, "dur": 1.0},
]


def write(path: Path, whole: object, *, packed: bool = False) -> Path:
    data = json.dumps(whole).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_times_move_to_the_clock_of_the_run(tmp_path: Path, packed: bool) -> None:
    """The times of a trace move to the run's clock by the date in nanoseconds that it has noted."""
    whole = {
        "traceEvents": EVENTS,
        "baseTimeNanoseconds": ORIGIN + 10**9,
        "distributedInfo": {"rank": 3},
    }
    events = list(profiler_events(write(tmp_path / "t.json", whole, packed=packed), ORIGIN, 1))
    name, matrix, flow, stream = events
    assert name["args"] == {"name": "profiler rank 3 · python"}
    assert (matrix["ts"], matrix["dur"]) == (1_002_000.5, 3.0)
    assert flow["id"] == "1:9"
    assert isinstance(stream["pid"], int)
    assert stream["pid"] != matrix["pid"] == name["pid"]


def test_older_traces_have_dates_as_times(tmp_path: Path) -> None:
    """Microseconds since 1970, in a bare list, too."""
    old = [{"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": ORIGIN / 1_000 + 50.0, "dur": 1.0}]
    [event] = profiler_events(write(tmp_path / "old.json", old), ORIGIN, 0)
    assert event["ts"] == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        ({"traceEvents": [EVENTS[1]]}, "have no date"),
        ({"events": []}, "is not a trace"),
        ([1, 2], "is not a trace"),
        ("text", "is not a trace"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, whole: object, message: str) -> None:
    """A file that is no trace is refused with its name in the error."""
    with pytest.raises(UsageError, match=message):
        list(profiler_events(write(tmp_path / "t.json", whole), ORIGIN, 0))


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    """Missing, half of a file, or no JSON."""
    (tmp_path / "half.gz").write_bytes(gzip.compress(b"[]")[:9])
    (tmp_path / "text").write_text("not JSON")
    for name in ("missing", "half.gz", "text"):
        with pytest.raises(UsageError, match="can't read the trace"):
            list(profiler_events(tmp_path / name, ORIGIN, 0))
