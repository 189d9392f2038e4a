"""A load for tests of faults: issues requests at a rate, each of which takes LATENCY_S and ends well.

    python load.py COUNTS [--rate N]

COUNTS is a file of three native uint64: requests that completed, set to end it, its pid. It prints one JSON object:
how many requests it completed, and the seconds between the first and the last issue by a clock that nobody sets.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import time

import telemetry

CELLS_BYTES = 24
LATENCY_S = 0.005
TOKENS = 7


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("counts")
    parser.add_argument("--rate", type=int, default=50)
    args = parser.parse_args()
    with open(args.counts, "r+b") as file:
        cells = memoryview(mmap.mmap(file.fileno(), CELLS_BYTES)).cast("Q")
    run = telemetry.start("load")
    kind = run.requests("llm")
    cells[2] = os.getpid()
    began = last = time.monotonic()
    while not cells[1]:
        time.sleep(max(0.0, began + cells[0] / args.rate - time.monotonic()))
        last = time.monotonic()
        request = kind.issue()
        time.sleep(LATENCY_S)
        request.complete(output_tokens=TOKENS)
        cells[0] += 1
    run.finish()
    print(json.dumps({"completed": cells[0], "seconds": last - began}), flush=True)


if __name__ == "__main__":
    main()
