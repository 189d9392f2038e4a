"""A driver that knows nothing of runs: its workers record, and it connects to the cluster of RAY_ADDRESS."""

from __future__ import annotations

import warnings

with warnings.catch_warnings(action="ignore"):
    import ray

import telemetry


@ray.remote(num_cpus=0)
def work(values: int) -> int:
    """Record increments in a worker."""
    done = telemetry.counter("done")
    for _ in range(values):
        done.add()
    return values


ray.init(log_to_driver=False)
ray.get([work.options(scheduling_strategy="SPREAD").remote(500) for _ in range(4)])
ray.shutdown()
