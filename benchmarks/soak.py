"""A long run: `python -m benchmarks.soak`, or `make soak`. Does the aggregator's memory stay bounded?

200 million events of 120 instruments of all kinds, half a million a second, with the journal at its cap, so that
old segments go. Memory is read from the snapshots: what it was at 10 million events, when the sliding window and
the first roll-up of the history have filled, is what it may be at the end, and a tenth more. A full run takes
seven minutes, writes its figures to benchmarks/results/ and exits with 1 if one was missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks import table
from benchmarks.harness import Figure, Outcome, Round
from benchmarks.load import Program
from benchmarks.watch import Sight, WatchedRun
from benchmarks.worker import Measure
from telemetry.limits import GIB, MIB

if TYPE_CHECKING:
    from telemetry import Run

EVENTS: Final = 200_000_000
RATE: Final = 500_000
FIRST: Final = 10_000_000
STEP: Final = 10_000_000
LIMIT_PERCENT: Final = 10.0
JOURNAL_BYTES: Final = GIB
_OTHERS: Final = 10  # counters, and as many gauges
_PIECE: Final = 1_000_000
_PIECE_S: Final = 1.0
_AROUND: Final = 10  # snapshots before and after


class Mixed(Program):
    """All kinds of instruments."""

    def calls(self, run: Run) -> list[Callable[[float], object]]:
        counters = [run.counter("bytes", unit="B", route=str(index)).add for index in range(_OTHERS)]
        gauges = [run.gauge("depth", route=str(index)).set for index in range(_OTHERS)]
        return [*super().calls(run), *counters, *gauges]


def program() -> Measure:
    one = Mixed()

    def measure(action: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(one, action)(**arguments)
        return answer

    return measure


ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {"program": program}


def soak(events: int, rate: int) -> tuple[Round, list[Sight]]:
    """One run with policy `block`, flooded if the rate is 0: how it ended, and what was seen of it."""
    os.environ["TELEMETRY_JOURNAL__CAP_BYTES"] = str(JOURNAL_BYTES)
    with WatchedRun("soak", "block", "benchmarks.soak") as watched:
        begin = time.monotonic()
        done = 0
        while done < events:
            load = {"seconds": _PIECE_S, "rate": rate} if rate else {"events": min(_PIECE, events - done)}
            done += watched.record(**load)["events"]
            _say(watched.watch.sights, done, events)
        watched.watch.applied_by(done)
        seconds = time.monotonic() - begin
        sights = list(watched.watch.sights)
        result = watched.finish()
        result["peak_bytes"] = watched.peak_bytes()
    return result | {"events": done, "flood_s": seconds, "events_per_s": done / seconds}, sights


def outcome(result: Round, sights: Sequence[Sight]) -> Outcome:
    """Raises RuntimeError if an event is not accounted for."""
    events = result["events"]
    if result["applied"] != events or result["lost"] or result["completeness"] != "complete":
        raise RuntimeError(f"{events:,} events were recorded, but the result is {result}")
    memory = {step: rss_at(sights, step) for step in range(min(FIRST, events), events + 1, STEP)}
    memory[events] = rss_at(sights, events)
    first, last = memory[min(FIRST, events)], memory[events]
    figures = [
        Figure(
            f"soak of {events:,} events: memory at the end, beside that at {FIRST:,}",
            100.0 * (last - first) / first,
            "%",
            LIMIT_PERCENT,
        ),
        Figure("the same, at the end", last / MIB, "MiB"),
        Figure("the same, peak with the end of the run", result["peak_bytes"] / MIB, "MiB"),
    ]
    return Outcome(
        figures, {"run": result, "rss_bytes_by_applied": {str(step): rss for step, rss in memory.items()}}
    )


def rss_at(sights: Sequence[Sight], applied: int) -> int:
    """Resident memory when so many events were applied: the median of two seconds around, as single turns of the
    loop come and go."""
    at = bisect_left(sights, applied, key=lambda sight: sight.applied)
    around = sights[max(0, min(at, len(sights)) - _AROUND) : at + _AROUND]
    return int(median(sight.rss_bytes for sight in around))


def _say(sights: Sequence[Sight], done: int, events: int) -> None:
    if sights and sys.stderr.isatty():
        print(f"\r{done:,} of {events:,}, {sights[-1].rss_bytes / MIB:.1f} MiB ", end="", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help="fewer write no results")
    parser.add_argument("--rate", type=int, default=RATE, help="events a second; 0: as fast as it goes")
    parser.add_argument("--out", type=Path, help="write the result to this JSON file and nothing else")
    args = parser.parse_args(argv)
    begin = time.monotonic()
    result, sights = soak(args.events, args.rate)
    found = table.entry(outcome(result, sights), "full", time.monotonic() - begin)
    for applied, rss_bytes in found["measurements"]["rss_bytes_by_applied"].items():
        print(f"{int(applied):>13,} events {rss_bytes / MIB:8.1f} MiB")
    print(table.render({"soak": found}))
    if args.out is not None:
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    elif args.events >= EVENTS:
        table.save(table.default_path(), {"soak": found})
    [growth] = [figure for figure in found["figures"] if figure["limit"] is not None]
    print(
        f"memory {'held' if growth['met'] else 'MISSED'}: {growth['value']:+.1f} %, at most {LIMIT_PERCENT:+.0f} %"
    )
    return 0 if growth["met"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
