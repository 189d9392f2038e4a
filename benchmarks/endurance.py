"""One long flood, from the first event to the exact final file: time of the end, and memory on the way.

The same run answers two groups of figures, so it is made once in a process.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import Figure, Outcome, Round, Size
from benchmarks.watch import Sight, WatchedRun
from telemetry.limits import MIB

LIMIT_SHORT_S: Final = 0.2
LIMIT_LONG_S: Final = 4.0
LIMIT_MIB: Final = 120.0
LIMIT_GROWTH_MIB: Final = 8.0
"""Flat: what the allocator may add once the window, and the first intervals of the history, are full."""
_SHORT: Final[dict[Size, int]] = {"full": 1_000_000, "quick": 1_000_000, "tiny": 20_000}
_LONG: Final[dict[Size, int]] = {"full": 100_000_000, "quick": 10_000_000, "tiny": 50_000}
_ROUNDS: Final[dict[Size, int]] = {"full": 3, "quick": 1, "tiny": 1}
_PIECE: Final = 5_000_000  # of a flood, so that a worker answers now and then


@cache
def flood(events: int, turn: int = 0) -> tuple[Round, list[Sight]]:
    """A run of so many events with policy `block`; how it ended, what was seen. `turn` tells repetitions apart."""
    with WatchedRun(f"bench-{turn}", "block") as watched:
        done = 0
        while done < events:
            done += watched.record(events=min(_PIECE, events - done))["events"]
        watched.watch.applied_by(done)
        result = watched.finish()
        result["peak_bytes"] = watched.peak_bytes()
        sights = list(watched.watch.sights)
        final = Path(result["directory"]) / "final_snapshot.json"
        result["file_s"] = (final.stat().st_ctime_ns - result["begin_wall_ns"]) / 1e9
        result["events"] = done
    return result, sights


def final_file(size: Size) -> Outcome:
    """From the call of `finish()`, with all events ingested, to the exact file under its name."""
    short = [flood(_SHORT[size], turn)[0] for turn in range(_ROUNDS[size])]
    long = [flood(_LONG[size])[0]]
    figures = []
    for results, limit in ((short, LIMIT_SHORT_S), (long, LIMIT_LONG_S)):
        for result in results:
            if not result["exact"] or result["lost"] or result["completeness"] != "complete":
                raise RuntimeError(f"the final file is not what it should be: {result}")
        slowest = max(result["file_s"] for result in results)
        what = f"end → exact final file, {results[0]['events']:,} samples"
        figures.append(Figure(f"{what}{' (slowest)' if len(results) > 1 else ''}", slowest, "s", limit))
    measurements: dict[str, dict[str, Any]] = {
        f"{one['events']} samples, run {at}": one for at, one in enumerate([*short, *long])
    }
    return Outcome(figures, measurements)


def memory(size: Size) -> Outcome:
    """Resident memory of the aggregator: while it ingests, and the peak with the exact pass at the end."""
    result, sights = flood(_LONG[size])
    seen = [(sight.applied, sight.rss_bytes) for sight in sights if sight.applied]
    half = result["events"] / 2
    early = max((rss for applied, rss in seen if applied <= half), default=seen[0][1])
    late = max(rss for _, rss in seen)
    what = f"100 series, {result['events']:,} events"
    flat = LIMIT_GROWTH_MIB if size == "full" else None  # a short run ends before the window is full
    figures = [
        Figure(f"aggregator's memory while it ingests, {what}", late / MIB, "MiB", LIMIT_MIB),
        Figure("the same, growth in the second half", max(0, late - early) / MIB, "MiB", flat),
        Figure("the same, peak of the whole run", result["peak_bytes"] / MIB, "MiB", LIMIT_MIB),
    ]
    return Outcome(figures, {"rss": {"rss_bytes_by_applied": seen[:: max(1, len(seen) // 50)]}})
