"""SIGKILL of programs that record with several threads: all that they committed is in the result, each value once.

This needs the compiled recorder. Without a compiler at installation, the same programs lose a flush period, and
what is left must still add up.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from mmap import mmap
from pathlib import Path
from typing import Any

import pytest

from telemetry.client.native_module import RECORDER

HERE = Path(__file__).parent
CELLS = 4
THREADS = 3
KILLS = 24
AT_ONCE = 3


class Program:
    """A program that records until it is killed, see recorder_threads.py."""

    def __init__(self, ground: Any, who: str, environ: dict[str, str], threads: int = THREADS) -> None:
        self.who, self.threads = who, threads
        path = ground.folder / f"{who}.counts"
        path.write_bytes(bytes(8 * (CELLS * threads + 1)))
        with path.open("r+b") as file:
            self._cells = memoryview(mmap(file.fileno(), 0)).cast("Q")
        self.command = [sys.executable, str(HERE / "recorder_threads.py"), str(path), who, str(threads)]
        self._ground, self._environ = ground, environ

    def start(self) -> subprocess.Popen[str]:
        process: subprocess.Popen[str] = self._ground.popen(*self.command, environ=self._environ)
        return process

    @property
    def pid(self) -> int:
        """0 until it starts to record."""
        return self._cells[-1]

    def counts(self, cell: int) -> list[int]:
        """Return one count for each thread."""
        return [self._cells[CELLS * number + cell] for number in range(self.threads)]

    def kill(self) -> None:
        assert self.pid
        os.kill(self.pid, signal.SIGKILL)


@pytest.fixture
def programs(ground: Any) -> Callable[..., Program]:
    """`programs(who, environ)` is a program that has not started."""
    return lambda who, environ=None, **options: Program(ground, who, environ or {}, **options)


def wait_for_values(crew: Any, program: Program, values: int) -> None:
    """Waits until the first thread has recorded so many."""
    crew.wait_until(lambda: program.counts(1)[0] >= values, 60.0, f"{program.who} records")


def account_of(final: dict[str, Any], program: Program) -> dict[str, Any]:
    """The account of a program."""
    (found,) = (one for one in final["producers"] if one["pid"] == program.pid)
    return dict(found)


def values_of(final: dict[str, Any], labels: dict[str, str]) -> int:
    """Return how many values of a thread are there. Check that they are the first ones, each once."""
    found = [one for one in final["series"] if one["name"] == "value" and one["labels"] == labels]
    if not found or not found[0]["count"]:
        return 0
    count: int = found[0]["count"]
    assert [found[0][word] for word in ("min", "max", "total")] == [0, count - 1, count * (count - 1) // 2], found
    return count


def events_of(final: dict[str, Any], labels: dict[str, str]) -> int:
    """Return how often a thread's counter was counted up."""
    return sum(one["value"] for one in final["counters"] if one["name"] == "calls" and one["labels"] == labels)


def check(final: dict[str, Any], program: Program) -> dict[str, Any]:
    """Check that the first values of each thread are there, each once.

    All values are there if they were in a ring.
    """
    account, applied = account_of(final, program), 0
    begun, done = program.counts(0), program.counts(1)
    for number in range(program.threads):
        labels = {"who": program.who, "thread": str(number)}
        count, added = values_of(final, labels), events_of(final, labels)
        assert count - added in (0, 1)
        if RECORDER is not None:
            assert done[number] <= count <= begun[number]
            assert done[number] <= added
        applied += count + added
    marks = account["applied"] - applied
    assert account["missing"] == 0
    if RECORDER is not None:
        assert sum(program.counts(3)) <= marks <= sum(program.counts(2))
        assert account["completeness"] == "complete"
        assert account["applied"] == account["emitted"]
    else:
        assert account["completeness"] == "incomplete"
    return account


def test_kills_at_random_moments_lose_and_double_nothing(
    ground: Any, crew: Any, faults: Any, programs: Any, chance: random.Random
) -> None:
    """Dozens of programs, one after the other and some at a time, from their first event on."""
    aggregator, endpoint = ground.serve()
    killed = []
    for first in range(0, KILLS, AT_ONCE):
        some = [programs(f"p{first + number}", {"TELEMETRY_ENDPOINT": endpoint}) for number in range(AT_ONCE)]
        processes = [program.start() for program in some]
        for program, process in zip(some, processes, strict=True):
            wait_for_values(crew, program, chance.choice([1, 100, chance.randint(1, 6_000)]))
            program.kill()
            process.wait()
        killed += some
    faults.stop(endpoint, aggregator)
    final = ground.final()
    for program in killed:
        check(final, program)
    if RECORDER is not None:
        assert final["completeness"] == "complete"
        assert final["accounting"]["salvaged"] > 0


def test_a_run_goes_on_after_a_salvage(
    ground: Any, crew: Any, faults: Any, programs: Any, chance: random.Random
) -> None:
    """A worker that is killed and replaced: its events are in the numbers some seconds later, not at the end."""
    aggregator, endpoint = ground.serve()
    first = programs("first", {"TELEMETRY_ENDPOINT": endpoint})
    process = first.start()
    wait_for_values(crew, first, chance.randint(1, 6_000))
    first.kill()
    process.wait()
    second = programs("second", {"TELEMETRY_ENDPOINT": endpoint})
    process = second.start()
    wait_for_values(crew, second, 1)
    if RECORDER is not None:
        crew.wait_until(
            lambda: any(stat.status == "ended" for stat in faults.status(endpoint).producers),
            60.0,
            "the first one ends",
        )
    second.kill()
    process.wait()
    faults.stop(endpoint, aggregator)
    final = ground.final()
    check(final, first)
    check(final, second)


def test_what_a_stopped_aggregator_never_got_is_salvaged(
    ground: Any, crew: Any, faults: Any, programs: Any, chance: random.Random
) -> None:
    """A program that is killed while its batches wait in its own sockets."""
    aggregator, endpoint = ground.serve()
    program = programs("p", {"TELEMETRY_ENDPOINT": endpoint})
    process = program.start()
    wait_for_values(crew, program, 1)
    aggregator.send_signal(signal.SIGSTOP)
    wait_for_values(crew, program, program.counts(1)[0] + chance.randint(1_000, 10_000))
    program.kill()
    process.wait()
    aggregator.send_signal(signal.SIGCONT)
    faults.stop(endpoint, aggregator)
    final = ground.final()
    account = check(final, program)
    if RECORDER is not None:
        assert account["salvaged"] > 0
        assert final["completeness"] == "complete"


BURSTS = """
import sys, time, telemetry
record = telemetry.start("bursts").series("value").record
print("up", flush=True)
sys.stdin.readline()
for _ in range(40):
    for _ in range(10_000):
        record(1.0)
    time.sleep(0.02)
print("done", flush=True)
sys.stdin.readline()
"""


def test_a_ring_grows_before_it_overwrites_what_was_not_acknowledged(
    native: None, ground: Any, faults: Any
) -> None:
    """Six times what it begins with, recorded while the aggregator is stopped: all of it is in the result."""
    aggregator, endpoint = ground.serve()
    environ = {"TELEMETRY_ENDPOINT": endpoint}
    job = ground.popen(sys.executable, ground.program("bursts.py", BURSTS), environ=environ, stdin=subprocess.PIPE)
    assert job.stdout.readline() == "up\n"
    aggregator.send_signal(signal.SIGSTOP)
    job.stdin.write("\n")
    job.stdin.flush()
    assert job.stdout.readline() == "done\n"
    job.kill()
    job.wait()
    aggregator.send_signal(signal.SIGCONT)
    faults.stop(endpoint, aggregator)
    final = ground.final()
    assert (final["completeness"], final["accounting"]["missing"]) == ("complete", 0)
    assert final["series"][0]["count"] == 400_000


def test_what_a_ring_does_not_hold_any_more_is_missing_to_the_event(
    ground: Any, crew: Any, faults: Any, programs: Any, chance: random.Random
) -> None:
    """A program that is killed long after its aggregator was stopped: the account is closed all the same, with what
    was dropped, and the result is not complete if anything is missing."""
    aggregator, endpoint = ground.serve()
    environ = {"TELEMETRY_ENDPOINT": endpoint, "TELEMETRY_EMIT__BUFFER_EVENTS": "4096"}
    program = programs("p", environ)
    process = program.start()
    wait_for_values(crew, program, 1)
    aggregator.send_signal(signal.SIGSTOP)
    wait_for_values(crew, program, 100_000 + chance.randint(1, 10_000))
    program.kill()
    process.wait()
    aggregator.send_signal(signal.SIGCONT)
    faults.stop(endpoint, aggregator)
    account = account_of(ground.final(), program)
    gone = account["missing"] + sum(account["dropped_by_producer"].values())
    assert account["emitted"] == account["applied"] + gone
    if RECORDER is not None:
        least = 2 * sum(program.counts(1)) + sum(program.counts(3))
        most = 2 * sum(program.counts(0)) + sum(program.counts(2))
        assert least <= account["emitted"] <= most
        assert account["completeness"] == ("lossy" if gone else "complete")
        assert account["salvaged"] > 0


def test_command_and_aggregator_are_killed_together(
    ground: Any, crew: Any, faults: Any, programs: Any, chance: random.Random
) -> None:
    """The next aggregator reads the journal, and then the ring."""
    program = programs("job")
    wrapper = ground.telemetry("run", "--quiet", "--no-collect", "--name", "job", "--", *program.command)
    crew.wait_until(lambda: program.pid or wrapper.poll() is not None, 60.0, "the command records")
    assert wrapper.poll() is None, wrapper.communicate()
    wait_for_values(crew, program, chance.randint(1, 6_000))
    (aggregator,) = faults.aggregators(ground)
    victims = [program.pid, aggregator]
    chance.shuffle(victims)
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    wrapper.communicate(timeout=60)
    final = ground.final()
    check(final, program)
    assert final["command"]["signal"] == "SIGKILL"
    if RECORDER is not None:
        assert final["completeness"] == "complete"


def test_no_ring_is_left_behind(ground: Any, crew: Any, faults: Any, programs: Any, chance: random.Random) -> None:
    """A program that was killed leaves no ring behind, and neither does its aggregator."""
    aggregator, endpoint = ground.serve()
    rings = [Path(ground.environ["XDG_RUNTIME_DIR"]) / "telemetry", Path(f"/dev/shm/telemetry-{os.geteuid()}")]
    program = programs("p", {"TELEMETRY_ENDPOINT": endpoint})
    process = program.start()
    wait_for_values(crew, program, chance.randint(1, 1_000))
    (stat,) = faults.status(endpoint).producers
    found = [path for folder in rings for path in folder.glob(f"{stat.producer}.*")]
    assert len(found) == (2 if RECORDER is not None else 0)
    program.kill()
    process.wait()
    faults.stop(endpoint, aggregator)
    assert not [path for path in found if path.exists()]
