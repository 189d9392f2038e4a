"""Does trouble of a backend reach the job? `python -m benchmarks.writers [--quick | --tiny]`

A loop of fixed work logs a step of 20 scalars every tenth time, beside three writers: two files of JSON lines, and
an OTLP receiver in this process. By turns nothing happens, the writer of one of the files is stopped, it is killed,
the receiver answers 500 for a minute, and it takes requests and does not answer. How long does the loop take in
each, and is every step everywhere at the end? Four minutes; a full run writes its figures to benchmarks/results/.
Exit code 1: a figure was missed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks import table
from benchmarks.harness import ROOT, Figure, Outcome

_SCALARS: Final = 20
_EVERY: Final = 10
_WORK_NS: Final = 95_000
_PATIENCE_S: Final = 120.0
_UNDISTURBED: Final = "nothing"
_MOST_SLOWER: Final = 1.03
"""Of the median: what the loop of `benchmarks.perturbation` is allowed."""

Mood = Literal["well", "fails", "hangs"]


@dataclass(frozen=True)
class Size:
    rounds: int
    seconds: float
    failing_s: float


_SIZES: Final = {"full": Size(2, 6.0, 60.0), "quick": Size(1, 3.0, 6.0), "tiny": Size(1, 0.3, 0.3)}


# --- the job -------------------------------------------------------------------------------------


def job(endpoint: str) -> None:
    """Until there is a file called `enough`. Leaves when each turn began, and how many steps there were."""
    import telemetry

    run = telemetry.start("job", to=["jsonl", "jsonl:as=other", f"otlp:endpoint={endpoint}"], finish_timeout_s=60.0)
    names = [f"train/value{number}" for number in range(_SCALARS)]
    clock, enough = time.perf_counter_ns, Path("enough")
    rounds = _rounds()
    began = array("q")
    turns = steps = 0
    while turns % 1_000 or not enough.exists():
        began.append(clock())
        _work(rounds)
        if turns % _EVERY == 0:
            run.log(dict.fromkeys(names, turns + 0.5), step=steps)
            steps += 1
        turns += 1
    Path("began").write_bytes(began.tobytes())
    Path("steps").write_text(str(steps))
    run.finish()


def _work(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number & 7
    return total


def _rounds() -> int:
    """So many take about a tenth of a millisecond."""
    best = min(_timed(2_000) for _ in range(50))
    return 2_000 * _WORK_NS // best


def _timed(rounds: int) -> int:
    began = time.perf_counter_ns()
    _work(rounds)
    return time.perf_counter_ns() - began


# --- the receiver --------------------------------------------------------------------------------


@dataclass
class Receiver:
    """Answers as it is in the mood for, and counts the steps it took."""

    mood: Mood = "well"
    steps: Counter[int] = field(default_factory=Counter)
    refused: int = 0

    def __post_init__(self) -> None:
        handler = type("_Asked", (_Asked,), {"receiver": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, body: bytes) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        request = ExportMetricsServiceRequest.FromString(body)
        metrics = (
            metric
            for found in request.resource_metrics
            for scope in found.scope_metrics
            for metric in scope.metrics
        )
        for metric in metrics:
            if metric.name == "train/value0":
                points = (point.attributes for point in metric.gauge.data_points)
                self.steps.update(item.value.int_value for point in points for item in point if item.key == "step")


class _Asked(BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        while self.receiver.mood == "hangs":
            time.sleep(0.05)
        well = self.receiver.mood == "well"
        if well:
            self.receiver.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        else:
            self.receiver.refused += 1
        self.send_response(200 if well else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


# --- trouble -------------------------------------------------------------------------------------


@dataclass
class Span:
    what: str
    begin_ns: int
    end_ns: int


class Trouble:
    """The job in a folder of its own, and what is done to its writers."""

    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self.folder = folder
        self.receiver = receiver
        self.time_ranges: list[Span] = []
        own = {name: text for name, text in os.environ.items() if not name.startswith("TELEMETRY_")}
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.writers", "--job", receiver.endpoint],
            cwd=folder,
            env=own | {"XDG_RUNTIME_DIR": str(folder), "XDG_CONFIG_HOME": str(folder), "PYTHONPATH": paths},
        )
        _wait(
            lambda: all(self.status(name).get("written") for name in ("jsonl", "other", "otlp")), "the first items"
        )

    def status(self, name: str) -> dict[str, Any]:
        try:
            path = self.folder / "runs" / "latest" / "backends" / name / "status.json"
            found: dict[str, Any] = json.loads(path.read_bytes())["status"]
        except FileNotFoundError:
            return {}
        return found

    def watch(self, what: str, seconds: float) -> None:
        begin_ns = time.perf_counter_ns()
        time.sleep(seconds)
        self.time_ranges.append(Span(what, begin_ns, time.perf_counter_ns()))

    def go_round(self, size: Size) -> None:
        self.watch(_UNDISTURBED, size.seconds)
        pid = self.status("other")["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.watch("a writer is stopped", size.seconds)
        os.kill(pid, signal.SIGCONT)
        self.watch(_UNDISTURBED, size.seconds)
        os.kill(pid, signal.SIGKILL)
        self.watch("a writer was killed", size.seconds)
        self.watch(_UNDISTURBED, size.seconds)
        self.receiver.mood = "fails"
        self.watch("a server answers 500", size.failing_s)
        self.receiver.mood = "well"
        self.watch(_UNDISTURBED, size.seconds)
        self.receiver.mood = "hangs"
        self.watch("a server does not answer", size.seconds)
        self.receiver.mood = "well"

    def end(self) -> int:
        """How many steps there were."""
        (self.folder / "enough").touch()
        self.process.wait(_PATIENCE_S)
        return int((self.folder / "steps").read_text())

    def deliver_the_rest(self) -> None:
        """What the backends had no time for until the end of the run."""
        words = ["export", "--resume", str(self.folder / "runs" / "latest")]
        subprocess.run([sys.executable, "-m", "telemetry", *words], cwd=self.folder, check=False)

    def loops(self) -> dict[str, list[float]]:
        """Microseconds of each turn of the loop, by what happened meanwhile."""
        began = array("q")
        began.frombytes((self.folder / "began").read_bytes())
        found: dict[str, list[float]] = {}
        for span in self.time_ranges:
            taken = found.setdefault(span.what, [])
            taken += [(after - at) / 1_000 for at, after in pairwise(began) if span.begin_ns <= at < span.end_ns]
        return found

    def steps_of(self, name: str) -> list[int]:
        """As they are in a file of JSON lines."""
        path = self.folder / "runs" / "latest" / "backends" / name / "data" / "items.jsonl"
        items = map(json.loads, path.read_text().splitlines())
        return [item["step"] for item in items if item["item"] == "step" and not item["revision"]]


def measure(size: Size) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="tm"))
    receiver = Receiver()
    trouble = Trouble(folder, receiver)
    try:
        for _ in range(size.rounds):
            trouble.go_round(size)
        steps = trouble.end()
        loops = trouble.loops()
        missing = sum(trouble.steps_of(name) != list(range(steps)) for name in ("jsonl", "other"))
        late = steps - len(receiver.steps)
        if late:
            trouble.deliver_the_rest()
        absent = steps - len(receiver.steps)
    finally:
        trouble.process.kill()
        trouble.process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    calm = statistics.median(loops[_UNDISTURBED])
    figures = [Figure("a loop that logs steps beside three backends, nothing happens, p50", calm, "µs wall")]
    for what, taken in loops.items():
        if what != _UNDISTURBED:
            ratio = statistics.median(taken) / calm
            figures.append(Figure(f"the same while {what}: p50 to that", ratio, "×", _MOST_SLOWER))
    figures += [
        Figure("files that lack a step afterwards, or have one twice or out of order", missing, "of 2", 0),
        Figure(f"steps of {steps:,} that the server got by `export --resume`", late, "steps"),
        Figure("steps that it lacks afterwards", absent, "steps", 0),
    ]
    measurements = {what: _summary(taken) for what, taken in loops.items()}
    twice = sum(times > 1 for times in receiver.steps.values())
    repeats = {"steps": steps, "late": late, "refused": receiver.refused, "twice": twice}
    return Outcome(figures, {**measurements, "server": repeats})


def _summary(taken: list[float]) -> dict[str, Any]:
    cuts = statistics.quantiles(taken, n=100)
    mean = statistics.fmean(taken)
    return {
        "turns": len(taken),
        "p50_us": statistics.median(taken),
        "p90_us": cuts[89],
        "p99_us": cuts[98],
        "mean_us": mean,
    }


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {_PATIENCE_S:g} s")
        time.sleep(0.05)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.writers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--quick", action="store_const", const="quick", dest="size", default="full")
    chosen.add_argument("--tiny", action="store_const", const="tiny", dest="size")
    parser.add_argument("--job", metavar="ENDPOINT", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.job:
        job(args.job)
        return 0
    begin = time.monotonic()
    outcome = measure(_SIZES[args.size])
    entry = table.entry(outcome, args.size, time.monotonic() - begin)
    print(table.render({"writers": entry}))
    print(json.dumps(outcome.measurements, indent=1), file=sys.stderr)
    if args.size == "full":
        table.save(table.default_path(), {"writers": entry})
    missed = [figure for figure in outcome.figures if figure.met is False]
    return 1 if missed and args.size == "full" else 0


if __name__ == "__main__":
    raise SystemExit(main())
