"""SIGKILL of the aggregator at random moments of a run: `python -m benchmarks.kills --kills 10 --rate 500000`.

`telemetry run` around producers that count their own calls; it starts each next aggregator by itself. Values are
0, 1, 2, … for each producer, so that their sum tells a loss from a value that came twice. With `--separate` each
kill has a run of its own. One line for each kill is on stderr, one JSON object on stdout; a full run writes its
figures to benchmarks/results/. Exit code 1: a sum is wrong, or events are missing after more than one kill of ten.

An aggregator that keeps dying is given up, so every fourth one may live for a while.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from mmap import mmap
from pathlib import Path
from typing import Any, Final

from benchmarks import table
from benchmarks.harness import ROOT, Figure, Outcome
from benchmarks.load import pace
from telemetry import limits
from telemetry.errors import TelemetryError
from telemetry.store.live_runs import list_live
from telemetry.transport.client import ControlClient
from telemetry.wire.control import GetStatus, Status

_GAP_S: Final = (0.2, 3.0)
_FOURTH_GAP_S: Final = limits.RESTART_LASTS_S + 0.5
_PATIENCE_S: Final = 60.0
_CELL: Final = 8


@dataclass(frozen=True)
class Load:
    """What runs while the aggregator is killed."""

    rate: int = 500_000
    """Events a second, of all producers together."""
    processes: int = 2


@dataclass
class Kill:
    """One SIGKILL. Times count from it."""

    at_s: float
    """Since the first event."""
    sent: int
    """Events until then."""
    heard_s: float = 0.0
    """Until the next aggregator answered."""
    caught_up_s: float = 0.0
    """Until all that was sent before the kill was in its numbers."""


@dataclass
class Run:
    """One run and what came of it."""

    seed: str
    sent: int = 0
    kills: list[Kill] = field(default_factory=list)
    final: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


# --- the producers -------------------------------------------------------------------------------


def produce(counts: Path, number: int, load: Load) -> None:
    """One of them, until the first cell says that it is over. Counts its calls in a cell of its own."""
    import telemetry

    with counts.open("r+b") as file:
        cells = memoryview(mmap(file.fileno(), 0)).cast("Q")
    run = telemetry.start(f"producer {number}")
    record = run.series("value", unit="1", producer=number).record
    done = 0

    def work(count: int) -> None:
        nonlocal done
        for value in range(done, done + count):
            record(value)
        done += count
        cells[number + 1] = done

    while not cells[0]:
        pace(work, 0.1, load.rate // load.processes)
    run.finish()


# --- one run -------------------------------------------------------------------------------------


class Wrapped:
    """`telemetry run` around the producers, in a directory of its own."""

    def __init__(self, load: Load, folder: Path) -> None:
        self.folder = folder
        self.load = load
        counts = folder / "counts"
        counts.write_bytes(bytes(_CELL * (load.processes + 1)))
        with counts.open("r+b") as file:
            self._cells = memoryview(mmap(file.fileno(), 0)).cast("Q")
        own = [sys.executable, "-m", "benchmarks.kills", "--produce", json.dumps([str(counts), asdict(load)])]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "telemetry",
                "run",
                "--name",
                "kills",
                "--dir",
                str(folder / "runs"),
                "--",
                *own,
            ],
            cwd=ROOT,
            env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
            stderr=(folder / "said").open("wb"),
        )

    @property
    def sent(self) -> int:
        return sum(self._cells[1:])

    def sent_by(self, number: int) -> int:
        return self._cells[number + 1]

    def aggregator(self) -> int:
        """Its pid; 0 while there is none."""
        return next((live.pid for live in list_live(self.folder / "telemetry") if live.alive), 0)

    def applied(self) -> int:
        """-1 if nobody answers."""
        try:
            (live,) = list_live(self.folder / "telemetry")
            with ControlClient(live.endpoint) as client:
                answer = client.request(GetStatus(), 0.2)
        except (TelemetryError, ValueError):
            return -1
        return answer.snapshot.accounting.applied if isinstance(answer, Status) else -1

    def end(self) -> dict[str, Any]:
        """The final file, once the producers were told that it is over."""
        self._cells[0] = 1
        self.process.wait(_PATIENCE_S)
        final: dict[str, Any] = json.loads((self.folder / "runs" / "latest" / "final_snapshot.json").read_bytes())
        return final


def kill_often(load: Load, kills: int, seed: str) -> Run:
    """A run in which the aggregator is killed so many times."""
    chance = random.Random(seed)
    run = Run(seed)
    folder = Path(tempfile.mkdtemp(prefix="tm"))
    wrapped = Wrapped(load, folder)
    try:
        _wait(lambda: wrapped.sent > load.rate // 10, "the first events")
        begin = time.monotonic()
        for number in range(kills):
            _let_pass(wrapped, _FOURTH_GAP_S if number % 4 == 3 else chance.uniform(*_GAP_S))
            run.kills.append(_kill(wrapped, begin))
        _let_pass(wrapped, chance.uniform(*_GAP_S))
        run.final = wrapped.end()
        run.sent = wrapped.sent
        run.faults = faults(wrapped, run.final)
    except TimeoutError as error:
        said = (folder / "said").read_text(errors="replace")
        raise TimeoutError(f"{error}, seed {seed}; telemetry said:\n{said}") from error
    finally:
        wrapped.process.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return run


def _kill(wrapped: Wrapped, begin: float) -> Kill:
    pid = wrapped.aggregator()
    sent = wrapped.sent
    os.kill(pid, signal.SIGKILL)
    at = time.monotonic()
    kill = Kill(at - begin, sent)
    _wait(lambda: wrapped.aggregator() not in (0, pid) and wrapped.applied() >= 0, "another aggregator")
    kill.heard_s = time.monotonic() - at
    _wait(lambda: wrapped.applied() >= sent, "all that was sent before the kill")
    kill.caught_up_s = time.monotonic() - at
    print(
        f"killed at {kill.at_s:6.2f} s, {sent:12,} sent; answers after {kill.heard_s:.2f} s, "
        f"has all of it after {kill.caught_up_s:.2f} s",
        file=sys.stderr,
    )
    return kill


def _let_pass(wrapped: Wrapped, seconds: float) -> None:
    time.sleep(seconds)
    if wrapped.process.poll() is not None:
        raise TimeoutError(f"telemetry run exited with code {wrapped.process.returncode}")


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {_PATIENCE_S:g} s")
        time.sleep(0.01)


def faults(wrapped: Wrapped, final: dict[str, Any]) -> list[str]:
    """Sums that don't add up."""
    account = final["accounting"]
    dropped = sum(account["dropped"].values()) + sum(account["dropped_by_producer"].values())
    found = []
    if account["emitted"] != wrapped.sent:
        found.append(f"{wrapped.sent:,} events were sent, {account['emitted']:,} are known")
    if account["applied"] + dropped + account["missing"] != wrapped.sent:
        found.append("sent is not applied + dropped + missing")
    if dropped or account["missing"]:
        return found  # which values are gone nobody can tell
    for series in final["series"]:
        count = wrapped.sent_by(int(series["labels"]["producer"]))
        if (series["count"], series["max"], series["total"]) != (count, count - 1, count * (count - 1) // 2):
            found.append(f"the values of {series['labels']} are not 0 … {count - 1:,}, each once")
    return found


# --- all of it -----------------------------------------------------------------------------------


def verdict(runs: Sequence[Run]) -> dict[str, Any]:
    """What all runs together came to."""
    accounts = [run.final["accounting"] for run in runs]
    kills = [kill for run in runs for kill in run.kills]
    losing = sum(len(run.kills) for run in runs if run.final["accounting"]["missing"])
    dropped: dict[str, int] = {}
    for account in accounts:
        for reason, count in [*account["dropped"].items(), *account["dropped_by_producer"].items()]:
            dropped[reason] = dropped.get(reason, 0) + count
    return {
        "runs": len(runs),
        "kills": len(kills),
        "kills_in_runs_that_miss_events": losing,
        "sent": sum(run.sent for run in runs),
        **{
            word: sum(account[word] for account in accounts)
            for word in ("applied", "missing", "repaired", "unrepairable", "duplicates")
        },
        "dropped": dropped,
        "completeness": sorted({run.final["completeness"] for run in runs}),
        "exact": all(run.final["exact"] for run in runs),
        "slowest_heard_s": max(kill.heard_s for kill in kills),
        "slowest_caught_up_s": max(kill.caught_up_s for kill in kills),
        "faults": [fault for run in runs for fault in run.faults],
    }


def outcome(load: Load, runs: Sequence[Run], found: dict[str, Any]) -> Outcome:
    what = f"{found['kills']} × SIGKILL of the aggregator at {load.rate:,} events/s"
    figures = [
        Figure(f"{what}: events missing", found["missing"], "events", 0),
        Figure("the same, slowest to answer again", found["slowest_heard_s"], "s"),
        Figure("the same, slowest to have all that was sent before", found["slowest_caught_up_s"], "s"),
    ]
    measurements = {run.seed: {"kills": [asdict(kill) for kill in run.kills]} for run in runs}
    return Outcome(figures, {"all": found, **measurements})


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    if args.produce:
        return _produce_all(args.produce)
    load = Load(args.rate, args.processes)
    seed = args.seed or str(random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed}", file=sys.stderr)
    begin = time.monotonic()
    if args.separate:
        runs = [kill_often(load, 1, f"{seed}.{number}") for number in range(args.kills)]
    else:
        runs = [kill_often(load, args.kills, seed)]
    found = verdict(runs)
    print(json.dumps(found, indent=2))
    if args.kills >= 10:
        entry = table.entry(outcome(load, runs, found), "full", time.monotonic() - begin)
        table.save(table.default_path(), {"kills, separate runs" if args.separate else "kills": entry})
    return 1 if found["faults"] or found["kills_in_runs_that_miss_events"] > len(runs) / 10 else 0


def _produce_all(task: str) -> int:
    """The command: as many producers as it takes. Returns the worst of their exit codes."""
    counts, words = json.loads(task)
    load = Load(**words)
    children = []
    for number in range(load.processes):
        pid = os.fork()
        if pid == 0:
            produce(Path(counts), number, load)
            return 0
        children.append(pid)
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=10, help="fewer than ten write no results")
    parser.add_argument("--rate", type=int, default=Load.rate, help="events a second")
    parser.add_argument("--processes", type=int, default=Load.processes)
    parser.add_argument("--seed", default="", help="of the moments; printed if it is not given")
    parser.add_argument("--separate", action="store_true", help="a run for each kill")
    parser.add_argument("--produce", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
