"""A load on a shop of three routes, with a warm-up and a deployment that makes it slow for a while.

`python checkout.py --clients 32 --seconds 60 [--faster 1.2]`. The values are random numbers; nothing is sent.
"""

from __future__ import annotations

import argparse
import random
import time

import telemetry

ROUTES = {"/search": (1.2, 12.0, 1.0), "/cart": (2.1, 19.0, 0.5), "/pay": (5.5, 55.0, 0.17)}
"""Path → median of most requests in ms, of the others, and requests beside those of /search."""
MARKS = {0.02: "warm-up", 0.18: "load begins", 0.57: "deploy 2.4.1", 0.68: "deployed"}
"""Part of the run → what begins."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--faster", type=float, default=1.0, help="divides all durations")
    args = parser.parse_args()
    chance, marks = random.Random(), dict(MARKS)
    with telemetry.start("checkout") as run:
        run.params({"clients": args.clients, "revision": "2.4.1" if args.faster > 1 else "2.4.0"})
        latency = {route: run.series("latency", unit="ms", labels={"route": route}) for route in ROUTES}
        requests, errors = run.counter("requests"), run.counter("errors")
        queue = run.gauge("queue.depth")
        began = time.monotonic()
        while (part := (time.monotonic() - began) / args.seconds) < 1.0:
            for at in [at for at in marks if part >= at]:
                run.mark(marks.pop(at))
            deploys = 0.57 <= part < 0.68
            slow = 3.2 if deploys else 1.0
            turns = (0.5 if part < 0.18 else 1.3 - 0.4 * part) / slow**0.5
            for route, (usual, cold, share) in ROUTES.items():
                for _ in range(int(turns * share * args.clients / 2.5 + chance.random())):
                    median = cold if chance.random() < 0.12 else usual
                    latency[route].record(chance.lognormvariate(0.0, 0.28) * median * slow / args.faster)
                    requests.add()
                    if chance.random() < (0.02 if deploys else 0.0008):
                        errors.add()
            queue.set(round(turns * args.clients / 4 * slow + chance.gauss(0.0, 1.0)))
            time.sleep(0.02)


if __name__ == "__main__":
    main()
