"""A program for tests of faults: records 0, 1, 2, … and counts the calls in a file that outlives any signal.

    python sender.py COUNTS WHO [--rate N] [--events N] [--gauge 1]

COUNTS is a file of three native uint64: calls that returned, set to end it, its pid. It ends after `--events` or
when told to, and prints one JSON object: what its own end was like. Where TELEMETRY_ENDPOINT is not set, it starts
an aggregator of its own. With `--gauge` the gauge `level` has the newest of the values.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import time
from collections.abc import Callable

import telemetry

BURST_S = 0.001
CELLS_BYTES = 24


Record = Callable[[float], object]


def record_all(record: Record, each_burst: Record, cells: memoryview, rate: int, events: int) -> None:
    """`rate` calls a second in bursts, or without a pause if that is 0."""
    burst = max(1, int(rate * BURST_S)) if rate else 1_000
    begun = time.monotonic()
    done = 0
    while done < events and not cells[1]:
        for number in range(done, min(done + burst, events)):
            record(number)
            cells[0] = number + 1
        done = cells[0]
        each_burst(done - 1)
        ahead_s = done / rate - (time.monotonic() - begun) if rate else 0.0
        if ahead_s > 0:
            time.sleep(ahead_s)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("counts")
    parser.add_argument("who")
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--events", type=int, default=1 << 62)
    parser.add_argument("--gauge", type=int, default=0)
    args = parser.parse_args()
    with open(args.counts, "r+b") as file:
        cells = memoryview(mmap.mmap(file.fileno(), CELLS_BYTES)).cast("Q")
    run = telemetry.start(args.who)
    record = run.series("value", unit="1", who=args.who).record
    cells[2] = os.getpid()
    level = run.gauge("level").set if args.gauge else lambda value: None
    record_all(record, level, cells, args.rate, args.events)
    report = run.finish()
    account = report.snapshot.accounting
    facts = {
        "sent": cells[0],
        "emitted": account.emitted,
        "applied": account.applied,
        "missing": account.missing,
        "source": report.source,
        "state": report.state,
        "completeness": report.completeness,
        "directory": report.directory,
    }
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
