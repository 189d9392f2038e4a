"""Workers that outlive their command: `python -m benchmarks.outlive --rounds 30 [--seed N]`.

Each round is a `telemetry run` around a launcher of 1 to 4 workers. The launcher exits or is killed at a random
moment. Its workers live for random times of their own: they finish, exit without `finish`, or are killed. Some are
detached, and some start late. Each worker counts its own calls in a file that survives it.

One line for each round. Exit code 1: a round says `complete` and an event is missing, or it says something else
although every worker finished properly within the grace.
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
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from mmap import mmap
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.harness import ROOT

_PATIENCE_S: Final = 60.0
_MARGIN_S: Final = 0.5
"""A worker that finishes so shortly before the grace is over may be late on a busy machine."""
_CELLS: Final = 4
"""Of each worker: values recorded, state, process, and when it had finished (monotonic, ns)."""
_STARTED, _RECORDING, _FINISHED, _REFUSED = range(1, 5)
_PERIOD_S: Final = 0.002

Leaving = Literal["finish", "exit", "kill"]


@dataclass(frozen=True)
class Life:
    """What one worker is to do."""

    delay_s: float
    """Before it joins the run."""
    lasts_s: float
    leaving: Leaving
    detached: bool


@dataclass(frozen=True)
class Plan:
    """What happens in one round."""

    lives: list[Life]
    launcher_s: float
    """How long the launcher lives, once it has started its workers."""
    launcher_killed: bool


def planned(chance: random.Random, grace_s: float) -> Plan:
    """In every other round or so all workers have time to finish."""
    calm = chance.random() < 0.5
    lives = [
        Life(
            delay_s=chance.choice([0.0, 0.0, chance.uniform(0.0, 1.5)]),
            lasts_s=chance.uniform(0.2, 0.5 + 0.5 * grace_s if calm else 1.5 + 1.5 * grace_s),
            leaving="finish" if calm else chance.choice(["finish", "finish", "exit", "kill"]),
            detached=chance.random() < 0.4,
        )
        for _ in range(chance.randint(1, 4))
    ]
    return Plan(lives, chance.uniform(0.3, 3.0), chance.random() < 0.5)


# --- the processes of a round --------------------------------------------------------------------


def cells_of(folder: Path) -> memoryview:
    """The counts, which all processes of a round share; the last cell is when the launcher left."""
    with (folder / "cells").open("r+b") as file:
        return memoryview(mmap(file.fileno(), 0)).cast("Q")


def launch(folder: Path, plan: Plan) -> None:
    """Start the workers, and leave them."""
    for number, life in enumerate(plan.lives):
        subprocess.Popen(
            [*_this(), "--work", json.dumps([str(folder), number, asdict(life)])],
            start_new_session=life.detached,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    time.sleep(plan.launcher_s)
    cells_of(folder)[-1] = time.monotonic_ns()
    if plan.launcher_killed:
        os.kill(os.getpid(), signal.SIGKILL)


def work(folder: Path, number: int, life: Life) -> None:
    """Record 0, 1, 2, … and count the calls."""
    cells = cells_of(folder)[_CELLS * number : _CELLS * (number + 1)]
    cells[2] = os.getpid()
    cells[1] = _STARTED
    import telemetry
    from telemetry.errors import TelemetryError

    time.sleep(life.delay_s)
    try:
        run = telemetry.start(f"worker-{number}")
    except TelemetryError:
        cells[1] = _REFUSED
        return
    record = run.series("value", unit="1", worker=number).record
    cells[1] = _RECORDING
    count, end_s = 0, time.monotonic() + life.lasts_s
    while time.monotonic() < end_s:
        record(count)
        count += 1
        cells[0] = count
        time.sleep(_PERIOD_S)
    if life.leaving == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if life.leaving == "finish":
        run.finish()
        cells[3] = time.monotonic_ns()
        cells[1] = _FINISHED


def _this() -> list[str]:
    return [sys.executable, "-m", "benchmarks.outlive"]


# --- one round -----------------------------------------------------------------------------------


@dataclass
class Worker:
    """What became of one worker, as it says itself, and what the result has of it."""

    recorded: int
    state: int
    finished_ns: int
    in_result: int


@dataclass
class Round:
    plan: Plan
    workers: list[Worker]
    completeness: str
    in_time: bool
    """Every worker finished properly within the grace."""

    @property
    def missing(self) -> int:
        return sum(worker.recorded - worker.in_result for worker in self.workers)

    def faults(self) -> list[str]:
        found = []
        if self.completeness == "complete" and any(one.recorded != one.in_result for one in self.workers):
            found.append(f"complete, and {self.missing:,} values are missing")
        if self.in_time and self.completeness != "complete":
            found.append(f"{self.completeness}, though every worker finished in time")
        return found

    def line(self, number: int) -> str:
        """The round as a line: of each worker how it left, values in the result and values recorded."""
        lives = ", ".join(
            f"{'too late' if one.state == _REFUSED else life.leaving}{' detached' if life.detached else ''} "
            f"{one.in_result:,}/{one.recorded:,}"
            for life, one in zip(self.plan.lives, self.workers, strict=True)
        )
        launcher = f"{'killed' if self.plan.launcher_killed else 'exits'} after {self.plan.launcher_s:.1f} s"
        said = "; ".join(self.faults()) or "ok"
        return (
            f"{number:3}  {self.completeness:10}  missing {self.missing:6,}  launcher {launcher}: {lives}  {said}"
        )


def one_round(seed: str, grace_s: float) -> Round:
    plan = planned(random.Random(seed), grace_s)
    folder = Path(tempfile.mkdtemp(prefix="tm"))
    (folder / "cells").write_bytes(bytes(8 * (_CELLS * len(plan.lives) + 1)))
    cells = cells_of(folder)
    command = [sys.executable, "-m", "telemetry", "run", "--name", "outlive", "--dir", str(folder / "runs")]
    command += ["--worker-grace", str(grace_s), "--quiet", "--"]
    command += [*_this(), "--launch", json.dumps([str(folder), asdict(plan)])]
    wrapper = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
        stderr=(folder / "said").open("wb"),
        start_new_session=True,
    )
    try:
        wrapper.wait(_PATIENCE_S)
        _await_workers(cells, len(plan.lives))
        final = json.loads((folder / "runs" / "latest" / "final_snapshot.json").read_bytes())
        return _compared(plan, cells, final, grace_s)
    except (OSError, subprocess.TimeoutExpired, TimeoutError) as error:
        said = (folder / "said").read_text(errors="replace")
        raise TimeoutError(f"{error}, seed {seed}; telemetry said:\n{said}") from error
    finally:
        for pid in [wrapper.pid, *cells[2 : _CELLS * len(plan.lives) : _CELLS]]:
            with suppress(ProcessLookupError):
                if pid:
                    os.kill(pid, signal.SIGKILL)
        wrapper.wait(_PATIENCE_S)
        shutil.rmtree(folder, ignore_errors=True)


def _await_workers(cells: memoryview, workers: int) -> None:
    """Until none of them lives, so that their counts are final."""
    deadline = time.monotonic() + _PATIENCE_S
    pids = {pid for pid in cells[2 : _CELLS * workers : _CELLS] if pid}
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > deadline:
            raise TimeoutError("workers live on")
        time.sleep(0.02)


def _compared(plan: Plan, cells: memoryview, final: dict[str, Any], grace_s: float) -> Round:
    counts = {int(one["labels"]["worker"]): int(one["count"]) for one in final["series"]}
    workers = [
        Worker(cells[at], cells[at + 1], cells[at + 3], counts.get(number, 0))
        for number, at in enumerate(range(0, _CELLS * len(plan.lives), _CELLS))
    ]
    latest_ns = cells[-1] + int((grace_s - _MARGIN_S) * 1e9)
    in_time = all(one.state == _FINISHED and one.finished_ns < latest_ns for one in workers)
    return Round(plan, workers, final["completeness"], in_time and cells[-1] > 0)


# --- all of it -----------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    if args.launch:
        folder, plan = json.loads(args.launch)
        launch(Path(folder), Plan(**{**plan, "lives": [Life(**life) for life in plan["lives"]]}))
        return 0
    if args.work:
        folder, number, life = json.loads(args.work)
        work(Path(folder), number, Life(**life))
        return 0
    seed = args.seed or str(random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed}, grace {args.grace:g} s")
    rounds = []
    for number in range(args.rounds):
        rounds.append(one_round(f"{seed}.{number}", args.grace))
        print(rounds[-1].line(number), flush=True)
    faulty = [one for one in rounds if one.faults()]
    complete = sum(one.completeness == "complete" for one in rounds)
    in_time = sum(one.in_time for one in rounds)
    print(
        f"{len(rounds)} rounds: {complete} complete, {in_time} in which every worker finished in time, "
        f"{sum(one.missing for one in rounds):,} values missing, {len(faulty)} wrong"
    )
    return 1 if faulty else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.outlive",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--grace", type=float, default=2.0, help="of `telemetry run`, seconds")
    parser.add_argument("--seed", default="", help="of the moments; printed if it is not given")
    parser.add_argument("--launch", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
