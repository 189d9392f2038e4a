"""Traces of torch.profiler, moved to the clock of a run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from telemetry.backends.timeline.trace import Event
from telemetry.common.formatting import printable
from telemetry.errors import UsageError

_PIDS: Final = 1_000_000
"""First process number of the first file. Each file has as many numbers."""
_UNIX_US: Final = 1e15
"""Times above are microseconds since 1970: 1e15 is in 2001."""
_FLOWS: Final = frozenset("stfbne")
"""Phases of events whose `id` joins them to others."""


def profiler_events(path: Path, origin_ns: int, number: int) -> Iterator[Event]:
    """Yield the events of a trace file, with times since `origin_ns`. `number` tells the files apart, from 0.

    Raises UsageError for a file that is no trace, or whose times have no date.
    """
    whole = _read(path)
    events = whole.get("traceEvents") if isinstance(whole, dict) else whole
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise UsageError(f"{printable(str(path))} is not a trace: it has no list `traceEvents`")
    facts = whole if isinstance(whole, dict) else {}
    base_ns = facts.get("baseTimeNanoseconds", 0)
    shift_us = _shift_us(path, events, base_ns if isinstance(base_ns, (int, float)) else 0, origin_ns)
    label = _label(path, facts)
    pids: dict[Any, int] = {}
    for event in events:
        pid = pids.setdefault(event.get("pid"), _PIDS * (number + 1) + len(pids))
        moved = {**event, "pid": pid}
        if "ts" in event:
            moved["ts"] = float(event["ts"]) + shift_us
        if event.get("ph") in _FLOWS and "id" in event:
            moved["id"] = f"{number}:{event['id']}"
        if event.get("ph") == "M" and event.get("name") == "process_name":
            moved["args"] = {"name": f"{label} · {event.get('args', {}).get('name', '')}"}
        yield moved


def _read(path: Path) -> Any:
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (OSError, EOFError, ValueError) as error:
        raise UsageError(f"can't read the trace {printable(str(path))}: {error}") from error


def _shift_us(path: Path, events: list[Event], base_ns: float, origin_ns: int) -> float:
    if base_ns:
        return (base_ns - origin_ns) / 1_000
    newest = max((float(event["ts"]) for event in events if event.get("ph") == "X" and "ts" in event), default=0.0)
    if newest < _UNIX_US:
        raise UsageError(
            f"the times of {printable(str(path))} have no date, so they can't be joined to the run",
            hint="write the trace with torch.profiler's export_chrome_trace",
        )
    return -origin_ns / 1_000


def _label(path: Path, facts: Mapping[str, Any]) -> str:
    distributed = facts.get("distributedInfo")
    rank = distributed.get("rank") if isinstance(distributed, dict) else None
    return f"profiler rank {rank}" if isinstance(rank, int) else f"profiler {path.name}"
