"""Writers beside a run: real children that are no real writers."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from telemetry import limits
from telemetry.backends.choice import parse
from telemetry.config.plugins.backends import BUILT_IN
from telemetry.errors import UsageError
from telemetry.supervise.writers import (
    Writers,
    check_kinds,
    name_of,
    said_when_long,
    with_backends,
    writer_command,
)
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.control import TellBackend
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BackendStat, MetricsSnapshot

DEADLINE_S = 30.0
STATUS = """
import json, os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1], "backends", sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
def status(**facts):
    made = folder / "new"
    made.write_text(json.dumps({"schema_version": 1, "status": {"name": sys.argv[2], "pid": os.getpid(), **facts}}))
    made.rename(folder / "status.json")
def say(words):
    print("telemetry:", words, file=sys.stderr, flush=True)
"""
DELIVERS = STATUS + "status(state='done', next_record=7, written=9); say('delivered')"
WAITS = STATUS + "status(state='writing', next_record=3, queued=1); say('writes'); time.sleep(60)"
POLITE = (
    STATUS
    + """
def stop(*_):
    status(state='undelivered', next_record=5, queued=0, last_error='no route')
    sys.exit(6)
signal.signal(signal.SIGTERM, stop)
say('writes')
time.sleep(60)
"""
)
CAN_T = STATUS + "say('no such key'); status(state='failed', time_ns=1, last_error='no such key'); sys.exit(2)"
MUTE = "import sys; sys.exit(2)"
LOSES = STATUS + "status(state='done', next_record=7, dropped={'too_large': 1_200, 'refused': 1}); sys.exit(6)"


class Nearby:
    """Writers that are small programs, by the kind that they are called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: queue.Queue[str] = queue.Queue()
        self.made: list[Writers] = []
        self.asked: list[tuple[str, str, str, float | None]] = []

    def begin(self, every_s: float | None = None, endpoint: str = "ipc:///run", **programs: str) -> Writers:
        def command(to: str, endpoint: str, directory: str, every: float | None) -> list[str]:
            self.asked.append((to, endpoint, directory, every))
            return [sys.executable, "-c", programs[to.partition(":")[0]], directory, name_of(to)]

        self.made.append(Writers(list(programs), self.said.put, every_s=every_s, command=command))
        self.made[-1].begin(endpoint, str(self.folder))
        return self.made[-1]

    def hear(self) -> str:
        return self.said.get(timeout=DEADLINE_S)

    def pid(self, name: str) -> int:
        data = json.loads((self.folder / "backends" / name / "status.json").read_text())
        return int(data["status"]["pid"])


@pytest.fixture
def nearby(tmp_path: Path) -> Iterator[Nearby]:
    made = Nearby(tmp_path)
    yield made
    for writers in made.made:
        writers.end(0.0)


def test_the_command_line() -> None:
    """The run, by both its names, and what somebody wrote after --to; the cadence if it is not the setting's."""
    words = [sys.executable, "-P", "-m", "telemetry", "export", "/d", "--writer", "--to", "a:b=c"]
    assert writer_command("a:b=c", "ipc:///r", "/d", None) == [*words, "--endpoint", "ipc:///r"]
    assert writer_command("a:b=c", "ipc:///r", "/d", 2.5)[-2:] == ["--every", "2.5"]


@pytest.mark.parametrize(
    "to",
    [
        "jsonl",
        "jsonl:as=mine",
        "jsonl:path=a\\,as=no,as=mine",
        "jsonl: as=mine,path=x=y",
        "jsonl:path=/as=x",
        r"jsonl:path=x\\,as=mine",
    ],
)
def test_a_writer_is_called_as_the_writer_itself_has_it(to: str) -> None:
    """`name_of` gives the name that the writer has itself, by which its folder is found."""
    assert name_of(to) == parse(to).name


def test_writers_that_can_t_be_told_apart_are_refused() -> None:
    """Writers of the same name are refused, and so are more than a run may have."""
    with pytest.raises(UsageError, match="the same name"):
        Writers(["jsonl", "jsonl:path=x"], print)
    with pytest.raises(UsageError, match="33 backends are too many; the limit for a run is 32"):
        Writers([f"jsonl:as=w{number}" for number in range(limits.BACKENDS + 1)], print)
    two = Writers(["jsonl", "jsonl:as=other", "jsonl:as=no name"], print)
    assert two.expected == [BackendStat(name="jsonl", kind="jsonl"), BackendStat(name="other", kind="jsonl")]
    assert not Writers([], print)


def test_a_backend_that_nobody_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for an unknown backend names similar ones.

    Backends of other packages are known by their entry points, and built-in ones need no look.
    """
    mine = EntryPoint("mine", "mine:Mine", "telemetry.backends")
    asked: list[str] = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [mine]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    check_kinds([f"{kind}:as=x" for kind in BUILT_IN])
    assert asked == []
    check_kinds(["jsonl", "mine:a=b"])
    assert asked == ["telemetry.backends"]
    with pytest.raises(UsageError, match=r"no backend is named 'wandbb' .did you mean wandb"):
        check_kinds(["mine", "wandbb"])
    with pytest.raises(UsageError, match=r"one of aim, .*mine"):
        check_kinds(["qqq:as=jsonl"])


def test_all_is_delivered(nearby: Nearby) -> None:
    """Writers that have delivered all end without a wait or a message."""
    writers = nearby.begin(one=DELIVERS, every_s=2.0)
    assert nearby.hear() == "delivered"
    began = time.monotonic()
    writers.end(60.0)
    assert time.monotonic() - began < DEADLINE_S
    [stat] = writers.stats
    assert (stat.name, stat.state, stat.written, stat.queued) == ("one", "done", 9, 0)
    assert not writers.failed
    assert nearby.said.empty()
    assert nearby.asked == [("one", "ipc:///run", str(nearby.folder), 2.0)]


def test_those_that_are_not_done_in_time_are_named(nearby: Nearby) -> None:
    """The one that answers to a signal, the one that is stopped, and how many records each lacks of those that
    anybody knows of."""
    writers = nearby.begin(polite=POLITE, waits=WAITS, one=DELIVERS)
    assert sorted(nearby.hear() for _ in range(3)) == ["delivered", "writes", "writes"]
    os.kill(nearby.pid("waits"), signal.SIGSTOP)
    writers.end(0.4)
    remedy = f"telemetry export --resume {nearby.folder}"
    assert [nearby.hear() for _ in range(2)] == [
        f"polite: 2 records are not delivered (no route); {remedy}",
        f"waits: 4 records are not delivered; {remedy}",
    ]
    assert [(stat.state, stat.queued) for stat in writers.stats] == [
        ("undelivered", 2),
        ("undelivered", 4),
        ("done", 0),
    ]
    assert writers.failed


def test_the_run_may_know_of_more_records_than_its_writers(nearby: Nearby) -> None:
    """One that was stopped early does not know what came since."""
    writers = nearby.begin(waits=WAITS)
    nearby.hear()
    writers.end(0.1, [BackendStat(name="waits", next_record=3, queued=3_197)])
    assert nearby.hear().startswith("waits: 3,197 records are not delivered; telemetry export --resume ")


def test_one_that_is_killed_goes_on_in_another(nearby: Nearby) -> None:
    """The last state of a writer counts how often it was started again."""
    writers = nearby.begin(polite=POLITE)
    for _ in range(2):
        assert nearby.hear() == "writes"
        os.kill(writers._children[0].pid, signal.SIGKILL)
        assert nearby.hear() == "polite: the writer was killed by signal 9; it is started again"
    assert nearby.hear() == "writes"
    writers.end(0.2)
    assert (writers.stats[0].state, writers.stats[0].restarts) == ("undelivered", 2)


def test_one_that_can_t_begin_is_not_tried_again(nearby: Nearby) -> None:
    """A writer that can't begin says why itself, unless it could not even do that."""
    writers = nearby.begin(one=CAN_T, mute=MUTE)
    writers.end(DEADLINE_S)
    remedy = f"telemetry export --resume {nearby.folder}"
    assert [nearby.hear() for _ in range(3)] == [
        "no such key",
        f"one: its writer could not start (no such key); after fixing the cause, {remedy}",
        "mute: its writer could not start",
    ]
    assert [(stat.state, stat.restarts, stat.kind) for stat in writers.stats] == [
        ("failed", 0, ""),
        ("failed", 0, "mute"),
    ]


def test_the_aggregator_is_told_of_a_writer_that_ends_before_the_run(
    nearby: Nearby, short_dir: Path, wait_until: Callable[..., object]
) -> None:
    """The aggregator is told of a failed writer, which may not have been able to tell it itself.

    A writer that is done, or ends with the run, is not reported.
    """
    with FakeAggregator(short_dir) as run:
        writers = nearby.begin(endpoint=run.endpoint, one=CAN_T, mute=MUTE, other=DELIVERS, polite=POLITE)
        missing = Writers(["gone"], nearby.said.put, command=lambda *_: ["/nowhere/python"])
        nearby.made.append(missing)
        missing.begin(run.endpoint, str(nearby.folder))
        wait_until(lambda: len(run.requests) >= 3, DEADLINE_S)
        writers.end(0.5)
        told = [request.stat for request in run.requests if isinstance(request, TellBackend)]
    assert sorted((stat.name, stat.state, stat.last_error) for stat in told) == [
        ("gone", "failed", "can't start the writer"),
        ("mute", "failed", ""),
        ("one", "failed", "no such key"),
    ]


def test_a_writer_that_ends_while_the_aggregator_is_away_is_told_later(
    nearby: Nearby, short_dir: Path, wait_until: Callable[..., object]
) -> None:
    """Another aggregator takes the place of one that died."""
    with FakeAggregator(short_dir) as run:
        endpoint = run.endpoint
    writers = nearby.begin(endpoint=endpoint, mute=MUTE)
    wait_until(lambda: writers._children[0].code is not None, DEADLINE_S)
    with FakeAggregator(short_dir) as run:
        assert run.endpoint == endpoint
        wait_until(lambda: run.requests, DEADLINE_S)
        [told] = run.requests
    assert told == TellBackend(id=1, stat=BackendStat(name="mute", kind="mute", state="failed"))


def test_what_was_not_taken_is_a_failure_too(nearby: Nearby) -> None:
    """However well the rest went."""
    writers = nearby.begin(one=LOSES)
    writers.end(DEADLINE_S)
    assert nearby.hear() == "one: 1,201 items were not accepted: 1 refused, 1,200 too_large"
    assert writers.failed


def test_a_writer_that_can_t_be_started_is_said(nearby: Nearby) -> None:
    """The run goes on without it."""
    writers = Writers(["one"], nearby.said.put, command=lambda *_: ["/nowhere/python"])
    nearby.made.append(writers)
    writers.begin("ipc:///run", str(nearby.folder))
    assert nearby.hear() == "one: can't start the writer: No such file or directory"
    writers.end(DEADLINE_S)
    assert (writers.stats[0].state, writers.failed) == ("failed", True)


def test_words_that_no_process_takes_are_said(nearby: Nearby) -> None:
    """A program that starts a run goes on as well."""
    command = [sys.executable, "-c", MUTE]
    writers = Writers(["one:path=a\0b", "two"], nearby.said.put, command=lambda to, *_: [*command, to])
    nearby.made.append(writers)
    writers.begin("ipc:///run", str(nearby.folder))
    assert nearby.hear() == "one: can't start the writer: embedded null byte"
    writers.end(DEADLINE_S)
    assert [stat.last_error for stat in writers.stats] == ["can't start the writer", ""]


def test_whoever_is_waited_for_is_told(nearby: Nearby, monkeypatch: pytest.MonkeyPatch) -> None:
    """The callback gets the number of records left for each awaited writer, as far as it is known."""
    monkeypatch.setattr("telemetry.supervise.writers._TELL_S", 0.01)
    writers = nearby.begin(one=DELIVERS, waits=WAITS)
    while nearby.hear() != "writes":
        pass

    def report(stats: list[BackendStat]) -> None:
        if {(stat.name, stat.queued) for stat in stats} == {("waits", 1)}:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writers.end(DEADLINE_S, waiting=report)


@pytest.mark.slow
def test_who_can_t_wait_ends_them_all_the_same(nearby: Nearby) -> None:
    """An interruption passes, and no process stays behind."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    writers = nearby.begin(polite=POLITE)
    assert nearby.hear() == "writes"
    with pytest.raises(KeyboardInterrupt), writers:
        writers.end(60.0, waiting=interrupt)
    assert writers._children[0].ended
    assert nearby.hear().startswith("polite: not all is delivered (no route)")


def test_without_backends_nothing_happens(nearby: Nearby) -> None:
    """A run without backends, as most runs are, starts no writer and does not wait."""
    with Writers([], nearby.said.put) as writers:
        writers.begin("ipc:///run", str(nearby.folder))
        writers.end(60.0)
    assert (writers.stats, writers.failed) == ([], False)


def test_a_damaged_report_of_a_writer_is_none(nearby: Nearby) -> None:
    """A writer with a damaged report has the state that follows from its exit."""
    writers = nearby.begin(one=DELIVERS)
    nearby.hear()
    assert writers._children[0].wait(time.monotonic() + DEADLINE_S)
    (nearby.folder / "backends" / "one" / "status.json").write_text("{")
    writers.end(DEADLINE_S)
    assert writers.stats == [BackendStat(name="one", kind="one", state="done")]


def test_the_report_has_the_last_states() -> None:
    """Backends that somebody else looks after stay as they are."""
    other, old = BackendStat(name="other", state="idle"), BackendStat(name="mine", state="writing")
    new = BackendStat(name="mine", state="done")
    report = Report(snapshot=MetricsSnapshot(run_id="r", name="n", backends=[old, other]), source="pubsub")
    assert with_backends(report, [new]).snapshot.backends == [other, new]


def test_a_long_wait_is_said_once() -> None:
    """The message of a long wait names the writers and the time left. A short wait causes none."""
    now_s = [5.0]
    said: list[str] = []
    tell = said_when_long(said.append, 30.0, lambda: now_s[0])
    late = [BackendStat(name="wandb"), BackendStat(name="mlflow")]
    for now_s[0] in (6.0, 7.0, 8.0):
        tell(late)
    assert said == ["waiting for wandb, mlflow, for 28 s more at most"]
