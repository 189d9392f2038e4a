"""Nothing vanishes: what producers sent, counted by their own loops, against what the report says.

    python -m benchmarks.conservation                                    # policy block: nothing may be lost
    python -m benchmarks.conservation --policy drop --stop-s 10          # sent = applied + dropped

Prints one JSON object and exits with 1 if a sum is wrong. Half of the events are increments of a counter, half are
values of a series, recorded by several threads of several processes into instruments of the same name.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import telemetry
from telemetry.store.live_runs import find_live
from telemetry.transport.endpoints import runtime_directory

_CYCLE: Final = 1_000  # values are 0 … 999, over and over


@dataclass(frozen=True)
class Load:
    """What each producer process does."""

    processes: int = 5
    threads: int = 4
    events: int = 1_000_000
    """Recorded by each thread."""
    policy: str = "block"
    stop_s: float = 0.0
    """How long the aggregator is stopped in the middle."""

    @property
    def sent(self) -> int:
        return self.processes * self.threads * self.events


def produce(load: Load) -> int:
    """One producer process. Returns the number of recording calls its loops made."""
    os.environ["TELEMETRY_EMIT__POLICY"] = load.policy
    os.environ["TELEMETRY_EMIT__BLOCK_TIMEOUT_S"] = "120"
    run = telemetry.start("conservation")
    value = run.series("value", unit="1")
    done = run.counter("done")
    sent = [0] * load.threads

    def loop(thread: int) -> None:
        count = 0
        for number in range(load.events // 2):
            value.record(number % _CYCLE)
            done.add()
            count += 2
        sent[thread] = count

    threads = [threading.Thread(target=loop, args=(thread,)) for thread in range(load.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.finish(timeout=120)
    return sum(sent)


def conserve(load: Load, directory: Path) -> dict[str, object]:
    """Runs producers against an aggregator of our own; returns what was sent and what the report says."""
    run = telemetry.start("conservation", dir=str(directory))
    begun = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.conservation", "--produce", json.dumps(asdict(load))]
    producers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(load.processes)]
    if load.stop_s:
        _stop_for_a_while(run, load.stop_s)
    sent = sum(int(producer.communicate()[0]) for producer in producers)
    seconds = time.monotonic() - begun
    report = run.finish(timeout=180)
    account = report.snapshot.accounting
    series, counter = report.series("value"), report.counter("done")
    half = load.events // 2
    full_cycles, rest = divmod(half, _CYCLE)
    total = full_cycles * _CYCLE * (_CYCLE - 1) // 2 + rest * (rest - 1) // 2
    return {
        "completeness": report.completeness,
        "source": report.source,
        "sent": sent,
        "emitted": account.emitted,
        "received": account.received,
        "applied": account.applied,
        "lost": account.lost,
        "dropped": account.dropped | account.dropped_by_producer,
        "missing": account.missing,
        "exact": report.snapshot.exact,
        "series_count": series.count,
        "series_total": series.total,
        "series_total_sent": total * load.processes * load.threads,
        "counter": counter.value,
        "percentiles": series.percentiles,
        "events_per_s": round(sent / seconds),
    }


def faults(load: Load, outcome: dict[str, object]) -> list[str]:
    """Sums that don't add up."""
    found = []
    numbers = {key: value for key, value in outcome.items() if isinstance(value, int)}
    if numbers["sent"] != load.sent or numbers["emitted"] != load.sent:
        found.append("emitted is not what was sent")
    if numbers["applied"] + numbers["lost"] != load.sent:
        found.append("sent is not applied + lost")
    if numbers["series_count"] + numbers["counter"] != numbers["applied"]:
        found.append("counts do not add up to what was applied")
    if load.policy == "block" and numbers["lost"]:
        found.append("policy block lost events")
    if not numbers["lost"] and (
        numbers["series_total"] != numbers["series_total_sent"]
        or numbers["counter"] != load.sent // 2
        or outcome["completeness"] != "complete"
    ):
        found.append("nothing was lost but a total is wrong")
    return found


def _stop_for_a_while(run: telemetry.Run, seconds: float) -> None:
    pid = find_live(runtime_directory(), run.run_id).pid
    time.sleep(1.0)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = Load()
    parser.add_argument("--processes", type=int, default=defaults.processes)
    parser.add_argument("--threads", type=int, default=defaults.threads)
    parser.add_argument("--events", type=int, default=defaults.events, help="recorded by each thread")
    parser.add_argument("--policy", choices=("block", "drop"), default=defaults.policy)
    parser.add_argument("--stop-s", type=float, default=defaults.stop_s, help="stop the aggregator for so long")
    parser.add_argument("--produce", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.produce:
        print(produce(Load(**json.loads(args.produce))))
        return 0
    load = Load(args.processes, args.threads, args.events, args.policy, args.stop_s)
    with tempfile.TemporaryDirectory(prefix="tm") as directory:
        outcome = conserve(load, Path(directory))
    wrong = faults(load, outcome)
    print(json.dumps(outcome | {"faults": wrong}, indent=2))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
