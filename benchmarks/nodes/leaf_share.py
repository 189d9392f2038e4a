"""CPU of a leaf for its root: `python -m benchmarks.nodes.leaf_share [--seconds 60]`.

A leaf and an aggregator without a root take the same events of two producers: 26 gauges and one step with work and
wait once a second, and 10 values a second of two series. The difference in their CPU is what the root costs a node.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.nodes.fan_in import cpu_s, serve

_PRODUCER = """
import os, time, telemetry
with telemetry.start("work") as run:
    telemetry.stragglers(work="work", wait="wait")
    gauges = [run.gauge(f"host.figure{at}", labels={"node": "n"}) for at in range(26)]
    series = [run.series(name, unit="ms") for name in ("time", "size")]
    step, until = 0, time.monotonic() + float(os.environ["SPAN_S"])
    while time.monotonic() < until:
        step += 1
        for at, gauge in enumerate(gauges):
            gauge.set(at + step)
        for _ in range(10):
            for each in series:
                each.record(5.0)
            time.sleep(0.1)
        run.log({"work": 0.9, "wait": 0.1}, step=step)
"""


def measure(span_s: float) -> dict[str, float]:
    """Return the shares of a core of a leaf, and of an aggregator without a root."""
    with ExitStack() as undo:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        _, root = undo.enter_context(serve(folder, "--name", "root", "--nodes", "1"))
        leaf, leaf_facts = undo.enter_context(
            serve(folder, "--name", "leaf", "--node", "n", "--upstream", root["endpoint"])
        )
        alone, alone_facts = undo.enter_context(serve(folder, "--name", "alone"))
        producers = [
            subprocess.Popen(
                [sys.executable, "-c", _PRODUCER],
                env={
                    **os.environ,
                    "TELEMETRY_ENDPOINT": facts["endpoint"],
                    "SPAN_S": str(span_s + 5),
                    "RANK": str(at),
                },
            )
            for facts in (leaf_facts, alone_facts)
            for at in range(2)
        ]
        time.sleep(3)
        before = [cpu_s(process.pid) for process in (leaf, alone)]
        time.sleep(span_s)
        used = [cpu_s(process.pid) - start for process, start in zip((leaf, alone), before, strict=True)]
        for producer in producers:
            producer.wait(60)
    return {
        "a leaf, % of a core": 100 * used[0] / span_s,
        "the same without a root": 100 * used[1] / span_s,
        "extra share of a leaf": 100 * (used[0] - used[1]) / span_s,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    print("| figure | value |\n|---|---|")
    for what, figure in measure(args.seconds).items():
        print(f"| {what} | {figure:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
