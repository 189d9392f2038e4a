"""Traces of torch.profiler on the clock of a run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from telemetry.backends.items import Span
from telemetry.backends.timeline.profiler import profiler_events
from telemetry.errors import UsageError
from telemetry.wire.events import SpanSource

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


def own_span(pid: int, host: str, rank: int | None, wall_us: int, slip_us: int) -> Span:
    """A span of a process whose wall clock is `slip_us` behind that of the run."""
    source = SpanSource(ORIGIN + wall_us * 1_000, "train", host, pid, rank)
    time_ns = source.wall_ns + slip_us * 1_000
    return Span(key="r", time_ns=time_ns, name="s", end_ns=time_ns, producer=f"{host}.{pid}", source=source)


@pytest.mark.parametrize(
    ("spans", "slip_us"),
    [
        ([own_span(5, "n1", 3, 1_002_000, 2_700)], 2_700),
        (
            [own_span(5, "n1", 3, 0, 9), own_span(5, "n1", 3, 1_002_500, 500), own_span(5, "n1", 3, 2_000_000, 8)],
            500,
        ),
        ([own_span(5, "n1", None, 1_002_000, -40)], -40),
        ([own_span(5, "n2", 3, 1_002_000, 2_700)], 0),
        ([own_span(5, "n1", 4, 1_002_000, 2_700)], 0),
        ([own_span(6, "n1", 3, 1_002_000, 2_700)], 0),
    ],
    ids=["its span", "the nearest span", "no rank", "another host", "another rank", "another process"],
)
def test_a_trace_follows_the_clock_of_its_own_process(tmp_path: Path, spans: list[Span], slip_us: int) -> None:
    """A trace moves like the spans of its process. Spans of other processes with the same id don't move it."""
    facts = {"baseTimeNanoseconds": ORIGIN + 10**9, "distributedInfo": {"rank": 3}, "host_name": "n1"}
    path = write(tmp_path / "t.json", {"traceEvents": EVENTS, **facts})
    _, matrix, *_ = profiler_events(path, ORIGIN, 0, spans)
    assert matrix["ts"] == 1_002_000.5 + slip_us


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
