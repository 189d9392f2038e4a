"""A driver: starts the run of a job on a Ray cluster, records in two workers, and waits for a line on stdin.

Arguments: name of the job, number of values. Writes lines of JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

with warnings.catch_warnings(action="ignore"):
    import ray

import telemetry
import telemetry.integrations.ray
from telemetry.errors import TelemetryError
from telemetry.wire.report import Report


@ray.remote(num_cpus=0)
class Worker:
    """An actor that records."""

    def record(self, values: int) -> int:
        """Record values and increments."""
        latency, done = telemetry.series("latency", "ms"), telemetry.counter("done")
        for value in range(values):
            latency.record(value)
            done.add()
        return values


def say(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def total(report: Report) -> float:
    """Return the value of the counter so far."""
    return sum(counter.value for counter in report.snapshot.counters if counter.name == "done")


def main() -> None:
    job, values = sys.argv[1], int(sys.argv[2])
    try:
        run = telemetry.integrations.ray.run(job, address="auto", log_to_driver=False)
    except TelemetryError as error:
        say(error=str(error))
        return
    with run:
        workers = [Worker.options(scheduling_strategy="SPREAD").remote() for _ in range(2)]
        ray.get([worker.record.remote(values) for worker in workers])
        while total(run.live_report()) < 2 * values:
            time.sleep(0.05)
        say(directory=run.directory, leaves=run.leaves())
        sys.stdin.readline()
    report = run.result()
    say(completeness=report.completeness, done=total(report))


main()
