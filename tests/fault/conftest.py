"""Faults on purpose, at moments that a seed chooses; what was sent, counted where no signal takes the count away.

Every test proves conservation to the event: what a sender's own loop counted is applied, dropped by reason, missing
by number, or was still in the memory of a process that was killed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from mmap import mmap
from pathlib import Path
from typing import Any, Final

import pytest
from tests.processes import processes_with

from telemetry.client.native_module import RECORDER, SWITCH
from telemetry.transport import ControlClient
from telemetry.wire.control import GetStatus, Status, Stop
from telemetry.wire.snapshot import MetricsSnapshot

HERE: Final = Path(__file__).parent
SEED: Final = "TELEMETRY_FAULT_SEED"
CELLS_BYTES: Final = 24
"""Of a sender's file of counts, see sender.py."""
SLACK_S: Final = 2.5
"""A killed process may have had what it recorded in its last flush period of 50 ms. On a busy machine a process may
not run for most of this."""


def _ground_of_process_tests() -> Any:
    path = HERE.parent / "process" / "conftest.py"
    spec = importlib.util.spec_from_file_location("process_ground", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Ground


Ground: Final = _ground_of_process_tests()


# --- the seed ------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Chosen once, in the environment, so that workers share it."""
    os.environ.setdefault(SEED, str(random.SystemRandom().randrange(1 << 32)))


def pytest_report_header(config: pytest.Config) -> str:
    return f"repeat faults at the same moments with: {SEED}={os.environ[SEED]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("seed", f"{SEED}={os.environ[SEED]}"))
    return report


@pytest.fixture
def faults() -> Any:
    """Return this module, which tests of faults share beside fixtures."""
    return sys.modules[__name__]


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this test alone: the same whatever ran before."""
    return random.Random(f"{os.environ[SEED]} {request.node.nodeid}")


# --- who sends -----------------------------------------------------------------------------------


class Sender:
    """A process that records 0, 1, 2, … into the series `value` with the label `who`, see sender.py."""

    def __init__(self, who: str, cells: mmap, process: subprocess.Popen[str] | None = None) -> None:
        self.who = who
        self.process = process
        self._cells = memoryview(cells).cast("Q")
        self._past: deque[tuple[float, int]] = deque()

    @property
    def sent(self) -> int:
        """Recording calls that returned; the process may be in the middle of one more."""
        count = self._cells[0]
        self._past.append((time.monotonic(), count))
        return count

    @property
    def pid(self) -> int:
        """0 until it records."""
        return self._cells[2]

    def end(self) -> None:
        """Asks it to stop recording and to finish."""
        self._cells[1] = 1

    def done(self, timeout_s: float = 60.0) -> dict[str, Any]:
        """Wait for the sender to end well, and return its account of its own end."""
        assert self.process is not None
        out, err = self.process.communicate(timeout=timeout_s)
        assert self.process.returncode == 0, err
        return dict(json.loads(out.splitlines()[-1]))

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        if self.process is not None and self.process.pid == self.pid:
            self.process.wait()

    def sent_before(self, seconds: float) -> int:
        """Return how many calls the sender had made that long ago, as far as the test looked."""
        begin = time.monotonic() - seconds
        return max((count for at, count in self._past if at <= begin), default=0)


class Crew:
    """Starts senders in a ground. `wait_until` is the fixture."""

    def __init__(self, ground: Any, wait_until: Callable[..., Any]) -> None:
        self.ground = ground
        self.wait_until = wait_until

    def words(self, who: str, **options: object) -> tuple[list[str], Sender]:
        """The command line of a sender and its counts, for somebody else to start it."""
        path = self.ground.folder / f"{who}.count"
        path.write_bytes(bytes(CELLS_BYTES))
        with path.open("r+b") as file:
            cells = mmap(file.fileno(), CELLS_BYTES)
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        return [sys.executable, str(HERE / "sender.py"), str(path), who, *flags], Sender(who, cells)

    def load(self, who: str, endpoint: str, environ: dict[str, str], rate: int) -> Sender:
        """Requests at a rate, see load.py; some have completed."""
        (_, _, counts, *_), sender = self.words(who)
        command = [sys.executable, str(HERE / "load.py"), counts, f"--rate={rate}"]
        sender.process = self.ground.popen(*command, environ={"TELEMETRY_ENDPOINT": endpoint} | environ)
        self.wait_until(lambda: sender.sent or sender.process.poll() is not None, 30.0, f"{who} sends")
        return sender

    def send(
        self, who: str, endpoint: str = "", environ: dict[str, str] | None = None, **options: object
    ) -> Sender:
        """A sender that has begun."""
        command, sender = self.words(who, **options)
        variables = {"TELEMETRY_ENDPOINT": endpoint} if endpoint else {}
        sender.process = self.ground.popen(*command, environ=variables | (environ or {}))
        self.wait_until(lambda: sender.sent or sender.process.poll() is not None, 30.0, f"{who} sends")
        return sender

    def progress(self, sender: Sender, events: int) -> None:
        """Waits until a sender has sent so many more."""
        moment = sender.sent + events
        self.wait_until(lambda: sender.sent >= moment, 60.0, f"{sender.who} sends {events:,} more")


@pytest.fixture
def ground() -> Iterator[Any]:
    """Yield the ground of the tests of processes, with a short grace at the end of each run."""
    made = Ground()
    made.environ["TELEMETRY_RUN__TERMINAL_GRACE_S"] = "0.2"
    yield made
    made.close()


@pytest.fixture(params=["compiled", "python"])
def recorder(request: pytest.FixtureRequest, ground: Any) -> str:
    """The recorder of all senders: the compiled one, which needs a compiler at installation, or that in Python."""
    if request.param == "python":
        ground.environ[SWITCH] = "0"
    elif RECORDER is None:
        return "python"
    return str(request.param)


@pytest.fixture
def crew(ground: Any, wait_until: Callable[..., Any]) -> Crew:
    return Crew(ground, wait_until)


# --- the aggregator ------------------------------------------------------------------------------


def status(endpoint: str) -> MetricsSnapshot:
    """Return the status that an aggregator reports now."""
    with ControlClient(endpoint) as client:
        answer = client.request(GetStatus(), 30.0)
    assert isinstance(answer, Status)
    return answer.snapshot


def processes_of(ground: Any) -> Iterator[tuple[int, list[bytes]]]:
    """(pid, command line) of all processes that were started in a ground, by whomever."""
    for pid in processes_with(f"XDG_RUNTIME_DIR={ground.folder}"):
        with suppress(OSError):
            yield pid, Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def aggregators(ground: Any) -> list[int]:
    """Pids of the aggregators of a ground, also of one that does not listen yet."""
    return [pid for pid, words in processes_of(ground) if b"serve" in words]


def stop(endpoint: str, aggregator: subprocess.Popen[str] | None = None) -> None:
    """Ends a run; with a process, waits for its end."""
    with ControlClient(endpoint) as client:
        client.request(Stop(reason="enough"), 30.0)
    if aggregator is not None:
        aggregator.communicate(timeout=60)
        assert aggregator.returncode == 0


def seam(environ: dict[str, str]) -> dict[str, str]:
    """The environment of a process whose surroundings site/sitecustomize.py changes."""
    path = os.pathsep.join(filter(None, (str(HERE / "site"), os.environ.get("PYTHONPATH", ""))))
    return {**environ, "PYTHONPATH": path}


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- the books -----------------------------------------------------------------------------------


def check_books(final: dict[str, Any]) -> None:
    """The two sums hold for each producer and for all, and what was applied is what the instruments hold."""
    total = final["accounting"]
    for account in (*final["producers"], total):
        dropped = sum(account["dropped"].values())
        assert account["received"] == account["applied"] + dropped + account["waiting"], account
        own = sum(account["dropped_by_producer"].values())
        assert account["emitted"] == account["received"] + own + account["missing"], account
    folded = (final["folded"] or {}).get("events", 0)
    for word in ("emitted", "received", "applied", "missing", "waiting"):
        without_row = folded if word in ("emitted", "received", "applied") else 0
        assert total[word] == without_row + sum(producer[word] for producer in final["producers"]), word
    held = sum(one["count"] for one in final["series"])
    held += sum(one["events"] for kind in ("counters", "gauges") for one in final[kind])
    assert held == total["applied"]


def values_of(final: dict[str, Any], who: str) -> dict[str, Any]:
    """The series that one sender filled."""
    (found,) = (one for one in final["series"] if one["name"] == "value" and one["labels"]["who"] == who)
    return dict(found)


def first_values(final: dict[str, Any], who: str) -> int:
    """Return how many values of a sender are in the result. Check that they are the first ones, each once."""
    series = values_of(final, who)
    count: int = series["count"]
    facts = {word: series[word] for word in ("min", "max", "total")}
    assert facts == {"min": 0, "max": count - 1, "total": count * (count - 1) // 2}, series
    return count


def account_of(final: dict[str, Any], sender: Sender) -> dict[str, Any]:
    """The account of a sender's process."""
    (found,) = (one for one in final["producers"] if one["pid"] == sender.pid)
    return dict(found)


def check_salvaged(final: dict[str, Any], sender: Sender) -> None:
    """Check that all of a killed sender with the compiled recorder is in the result.

    The sender may have died inside a call.
    """
    account, applied = account_of(final, sender), first_values(final, sender.who)
    assert applied == account["applied"] == account["emitted"]
    assert applied - sender.sent in (0, 1), "committed, and killed before it counted"
    assert account["completeness"] == "complete"


def check_killed(final: dict[str, Any], sender: Sender, kept: int) -> int:
    """Check that at least the first `kept` values of a killed sender are in the result.

    Its recorder is in Python; return how much was in its memory.
    """
    account, applied = account_of(final, sender), first_values(final, sender.who)
    unheard = sender.sent - account["emitted"]
    assert applied == account["applied"] >= kept
    assert account["completeness"] == "incomplete"
    assert sender.sent == applied + account["missing"] + sum(account["dropped"].values()) + unheard
    assert unheard >= -1, "it was in the middle of one call"
    return unheard
