"""Four worker processes, one run: same-named instruments of all of them are one series.

    python examples/multiprocess_job.py            # starts an aggregator of its own
    telemetry run -- python examples/multiprocess_job.py

The parent calls `start`; workers find the aggregator by the environment and are producers of their own, each with
its own account in the report.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os

import telemetry


def work(rank: int, steps: int) -> None:
    """One worker: some arithmetic in steps, each timed."""
    os.environ["RANK"] = str(rank)
    run = telemetry.start("job")
    step_time = run.series("step_time", unit="us")
    steps_done = run.counter("steps_done")
    loss = run.gauge("loss", rank=str(rank))
    for step in range(1, steps + 1):
        with step_time.time():
            total = sum(math.sqrt(value) for value in range(2_000 + 500 * rank))
        loss.set(total / step)
        steps_done.add()
    run.finish()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2_000)
    args = parser.parse_args()
    run = telemetry.start("job")
    run.params({"workers": args.workers, "steps": args.steps})
    run.expect("steps_done", args.workers * args.steps)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(rank, args.steps)) for rank in range(args.workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    run.finish()


if __name__ == "__main__":
    main()
