"""Traces of torch.profiler, moved to the clock of a run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from telemetry.backends.items import Span
from telemetry.backends.timeline.trace import Event
from telemetry.common.formatting import printable
from telemetry.errors import UsageError
from telemetry.wire.events import SpanSource

_PIDS: Final = 1_000_000
"""First process number of the first file. Each file has as many numbers."""
_UNIX_US: Final = 1e15
"""Times above are microseconds since 1970: 1e15 is in 2001."""
_FLOWS: Final = frozenset("stfbne")
"""Phases of events whose `id` joins them to others."""


def profiler_events(path: Path, origin_ns: int, number: int, spans: Iterable[Span] = ()) -> Iterator[Event]:
    """Yield the events of a trace file, with times since `origin_ns`. `number` tells the files apart, from 0.

    The trace has the wall clock of its process. If that process has recorded one of `spans`, the events are moved
    like its spans, from its own wall clock to that of the run.

    Raises UsageError for a file that is no trace, or whose times have no date.
    """
    whole = _read(path)
    events = whole.get("traceEvents") if isinstance(whole, dict) else whole
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise UsageError(f"{printable(str(path))} is not a trace: it has no list `traceEvents`")
    facts = whole if isinstance(whole, dict) else {}
    base_ns = _base_ns(path, facts, events)
    shift_us = (base_ns + _clock_shift_ns(facts, events, base_ns, spans) - origin_ns) / 1_000
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


def _base_ns(path: Path, facts: Mapping[str, Any], events: list[Event]) -> int:
    """Return the Unix time at which the times of a trace begin."""
    base_ns = facts.get("baseTimeNanoseconds", 0)
    if base_ns and isinstance(base_ns, (int, float)):
        return int(base_ns)
    newest = max((float(event["ts"]) for event in events if event.get("ph") == "X" and "ts" in event), default=0.0)
    if newest < _UNIX_US:
        raise UsageError(
            f"the times of {printable(str(path))} have no date, so they can't be joined to the run",
            hint="write the trace with torch.profiler's export_chrome_trace",
        )
    return 0


def _clock_shift_ns(facts: Mapping[str, Any], events: list[Event], base_ns: int, spans: Iterable[Span]) -> int:
    """Return what leads from the wall clock of the trace's process to that of the run; 0 if it has no spans.

    A clock may be set during a run, so the span that is nearest to the beginning of the trace decides.
    """
    began_us = min(
        (float(event["ts"]) for event in events if event.get("ph") == "X" and "ts" in event), default=0.0
    )
    began_ns = base_ns + round(began_us * 1_000)
    pids, rank = {event.get("pid") for event in events}, _rank(facts)
    shifts = [
        (abs(source.wall_ns - began_ns), span.time_ns - source.wall_ns)
        for span in spans
        if (source := span.source) is not None and _is_of(source, facts, pids, rank)
    ]
    return min(shifts)[1] if shifts else 0


def _is_of(source: SpanSource, facts: Mapping[str, Any], pids: set[Any], rank: int | None) -> bool:
    """Return whether a trace is from this process. Processes of two machines may have the same id."""
    return (
        source.wall_ns > 0 < source.pid
        and source.pid in pids
        and facts.get("host_name", source.host) == source.host
        and (rank is None or source.rank in (None, rank))
    )


def _rank(facts: Mapping[str, Any]) -> int | None:
    distributed = facts.get("distributedInfo")
    rank = distributed.get("rank") if isinstance(distributed, dict) else None
    return rank if isinstance(rank, int) else None


def _label(path: Path, facts: Mapping[str, Any]) -> str:
    rank = _rank(facts)
    return f"profiler {path.name}" if rank is None else f"profiler rank {rank}"
