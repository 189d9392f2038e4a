"""SIGKILL of recording programs at random moments: `python -m benchmarks.salvage --kills 200 [--seed N]`.

Each program records 0, 1, 2, … with several threads, and marks from time to time. It is killed, and the aggregator
reads the rest from its ring. A thread stores the number of its calls in a file before and after each call, so the
truth is known to the call: every value that was committed must be in the result, once.

One line for each run of some kills. Exit code 1: a value is missing, came twice, or the account differs.
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
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from mmap import mmap
from pathlib import Path
from typing import Any, Final

from tests.fault.recorder_threads import CELLS, record_until_killed

from benchmarks.harness import ROOT
from telemetry.client.native_module import RECORDER

_PATIENCE_S: Final = 120.0
_MARK_EVERY: Final = 2_000
_LONGEST_S: Final = 1.0


@dataclass(frozen=True)
class Load:
    """What each program does until it is killed."""

    rate: int = 100_000
    """Values a second, of all threads together."""
    threads: int = 2


@dataclass
class Kill:
    """One program that was killed, as it says itself and as the result has it."""

    begun: int = 0
    done: int = 0
    marks_begun: int = 0
    marks_done: int = 0
    emitted: int = 0
    salvaged: int = 0
    faults: list[str] = field(default_factory=list)


# --- the program ---------------------------------------------------------------------------------


def work(path: Path, who: str, load: Load) -> None:
    """Record with all threads until somebody kills this process. The last cell is set once they begin."""
    import telemetry

    with path.open("r+b") as file:
        cells = memoryview(mmap(file.fileno(), 0)).cast("Q")
    run = telemetry.start(who)
    for number in range(load.threads):
        record = run.series("value", unit="1", who=who, thread=number).record
        own = cells[CELLS * number : CELLS * (number + 1)]
        threading.Thread(
            target=record_until_killed,
            args=(record, lambda value: run.mark(f"mark {value}"), own),
            kwargs={"rate": load.rate / load.threads, "mark_every": _MARK_EVERY},
            daemon=True,
        ).start()
    cells[-1] = 1
    signal.pause()


# --- one run -------------------------------------------------------------------------------------


def one_run(seed: str, kills: int, load: Load, jobs: int) -> list[Kill]:
    """Kill so many programs of one run, some of them at the same time, and compare."""
    folder = Path(tempfile.mkdtemp(prefix="tm"))
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    command = [sys.executable, "-m", "telemetry", "serve", "--name", "salvage", "--dir", str(folder / "runs")]
    aggregator = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert aggregator.stderr is not None
        said = aggregator.stderr.readline() + aggregator.stderr.readline()
        environment["TELEMETRY_ENDPOINT"] = said.partition("TELEMETRY_ENDPOINT=")[2].split()[0]
        with ThreadPoolExecutor(jobs) as pool:
            names = [f"program-{number}" for number in range(kills)]
            pids = list(pool.map(lambda who: _kill_one(folder, who, seed, load, environment), names))
        stop = [sys.executable, "-m", "telemetry", "stop", "salvage"]
        subprocess.run(stop, cwd=ROOT, env=environment, check=True, stderr=subprocess.DEVNULL)
        aggregator.communicate(timeout=_PATIENCE_S)
        snapshot = json.loads((folder / "runs" / "latest" / "final_snapshot.json").read_bytes())
        return [_compared(folder / who, who, pid, load, snapshot) for who, pid in zip(names, pids, strict=True)]
    except (OSError, TimeoutError, ValueError, subprocess.SubprocessError) as error:
        log = (folder / "runs" / "latest" / "daemon.log").read_text(errors="replace")
        raise TimeoutError(f"{error}, seed {seed}; the log of the run:\n{log}") from error
    finally:
        aggregator.kill()
        aggregator.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _kill_one(folder: Path, who: str, seed: str, load: Load, environment: dict[str, str]) -> int:
    """Start a program, and kill it some time after it began to record. Return its pid."""
    path = folder / who
    path.write_bytes(bytes(8 * (CELLS * load.threads + 1)))
    with path.open("r+b") as file:
        cells = memoryview(mmap(file.fileno(), 0)).cast("Q")
    command = [sys.executable, "-m", "benchmarks.salvage", "--work", str(path), who]
    command += ["--rate", str(load.rate), "--threads", str(load.threads)]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as program:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not cells[-1]:
            if time.monotonic() > deadline_s or program.poll() is not None:
                raise TimeoutError(f"{who} does not record")
            time.sleep(0.001)
        time.sleep(random.Random(f"{seed} {who}").uniform(0.0, _LONGEST_S))
        program.send_signal(signal.SIGKILL)
    return program.pid


def _compared(path: Path, who: str, pid: int, load: Load, snapshot: dict[str, Any]) -> Kill:
    cells = memoryview(path.read_bytes()).cast("Q")
    kill = Kill()
    (account,) = (one for one in snapshot["producers"] if one["pid"] == pid)
    kill.emitted, kill.salvaged = account["emitted"], account["salvaged"]
    in_series = 0
    for number in range(load.threads):
        begun, done, marks_begun, marks_done = cells[CELLS * number : CELLS * (number + 1)]
        kill.begun, kill.done = kill.begun + begun, kill.done + done
        kill.marks_begun, kill.marks_done = kill.marks_begun + marks_begun, kill.marks_done + marks_done
        labels = {"who": who, "thread": str(number)}
        found = [one for one in snapshot["series"] if one["name"] == "value" and one["labels"] == labels]
        count = found[0]["count"] if found else 0
        in_series += count
        if not done <= count <= begun:
            kill.faults.append(f"thread {number}: {count:,} values of {done:,} to {begun:,}")
        facts = (0, count - 1, count * (count - 1) // 2)
        if count and (found[0]["min"], found[0]["max"], found[0]["total"]) != facts:
            kill.faults.append(f"thread {number}: not each value once")
    marks = account["applied"] - in_series
    if not kill.marks_done <= marks <= kill.marks_begun:
        kill.faults.append(f"{marks:,} marks of {kill.marks_done:,} to {kill.marks_begun:,}")
    if account["completeness"] != "complete" or account["applied"] != account["emitted"]:
        kill.faults.append(f"{account['completeness']}: {account['applied']:,} of {account['emitted']:,} applied")
    return kill


# --- all of it -----------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    load = Load(args.rate, args.threads)
    if RECORDER is None:
        print("the compiled recorder is not installed, or does not fit its sources", file=sys.stderr)
        return 2
    if args.work:
        work(Path(args.work[0]), args.work[1], load)
    seed = args.seed or str(random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed}, {load.rate:,} values/s by {load.threads} threads", flush=True)
    kills: list[Kill] = []
    while len(kills) < args.kills:
        some = min(args.each, args.kills - len(kills))
        kills += one_run(f"{seed}.{len(kills)}", some, load, args.jobs)
        print(_line(kills), flush=True)
    for number, kill in enumerate(kills):
        for fault in kill.faults:
            print(f"kill {number}: {fault}")
    return 1 if any(kill.faults for kill in kills) else 0


def _line(kills: Sequence[Kill]) -> str:
    inside = sum(kill.begun > kill.done or kill.marks_begun > kill.marks_done for kill in kills)
    wrong = sum(bool(kill.faults) for kill in kills)
    return (
        f"{len(kills):,} kills, {sum(kill.emitted for kill in kills):,} events committed, "
        f"{sum(kill.salvaged for kill in kills):,} of them salvaged, "
        f"{inside:,} killed inside a call, {wrong:,} wrong"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.salvage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--each", type=int, default=50, help="of one run")
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time")
    parser.add_argument("--rate", type=int, default=100_000, help="values a second of a program")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", default="", help="of the moments; printed if it is not given")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
