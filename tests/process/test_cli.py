"""The reading commands against a real aggregator in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from tests.processes import end_group, kill_all, processes_with

from telemetry.transport import hello
from telemetry.wire.codec import encode_batch
from telemetry.wire.events import Count, EventRecord, Mark, OutgoingBatch, Sample
from telemetry.wire.version import PROTOCOL

DEADLINE_S = 30.0


class Site:
    """A working directory with its own runtime directory, and an aggregator called `job` in it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tm"))
        self.environ = {**os.environ, "XDG_RUNTIME_DIR": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}
        self.environ.pop("TELEMETRY_ENDPOINT", None)
        self.aggregator = self.popen("serve", "--name", "job", stderr=subprocess.PIPE)
        assert self.aggregator.stderr is not None
        self.said = [self.aggregator.stderr.readline() for _ in range(2)]
        found = re.search(r"TELEMETRY_ENDPOINT=(\S+)", self.said[1])
        assert found, self.said
        self.endpoint = found[1]

    def popen(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "telemetry", *words]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environ, text=True, start_new_session=True, **options
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "telemetry", *words]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ,
            text=True,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def emit(self, records: list[EventRecord]) -> None:
        """One batch of a producer that never says hello."""
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        events = context.socket(zmq.XPUB)
        events.connect(hello(self.endpoint).events)
        assert events.poll(DEADLINE_S * 1_000), "the aggregator does not subscribe"
        now = (time.monotonic_ns(), time.time_ns())
        events.send(encode_batch(OutgoingBatch(PROTOCOL, f"p{now[0]}", 0, 0, now, {}, records, [])))
        events.close(1_000)
        context.term()

    def close(self) -> None:
        end_group(self.aggregator)
        kill_all(processes_with(f"XDG_RUNTIME_DIR={self.folder}"))
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


RECORDS: list[EventRecord] = [
    Count(name="requests", value=3.0),
    Count(name="requests", value=4.0),
    Sample(name="latency", value=1.5, unit="ms"),
    Mark(text="warm"),
]


def wait_applied(site: Site, events: int) -> dict[str, Any]:
    """The status once this many events are in the numbers."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        status = json.loads(site.run("status", "--json").stdout)
        if status["accounting"]["applied"] >= events:
            return dict(status)
    raise AssertionError(f"no {events} events were applied: {status['accounting']}")


def test_a_live_run_from_first_look_to_report(site: Site) -> None:
    """The commands ls, status, report, tail, stop and ls again show the same numbers of one run."""
    (listed,) = json.loads(site.run("ls", "--json").stdout)
    assert {"name", "run_id", "state", "pid", "endpoint", "dir"} <= set(listed)
    assert (listed["name"], listed["pid"], listed["endpoint"]) == ("job", site.aggregator.pid, site.endpoint)
    assert Path(listed["dir"]).is_dir()
    site.emit(RECORDS)
    status = wait_applied(site, 4)
    assert status["source"] == "status"
    assert status["state"] == "LIVE"
    for spec in ("job", listed["run_id"], listed["dir"], site.endpoint, "latest"):
        live = site.run("report", spec)
        assert live.stdout.startswith("live: job, 4 of 4 events applied, 0 lost\n"), spec
    assert site.run("report", "job", "--strict").returncode == 4

    stopped = site.run("stop", "job", "--reason", "enough")
    assert stopped.returncode == 0, stopped.stderr
    assert "complete: job, 4 of 4 events applied, 0 lost" in stopped.stderr
    assert stopped.stdout == ""
    assert site.aggregator.wait(DEADLINE_S) == 0
    (listed,) = json.loads(site.run("ls", "--json").stdout)
    assert (listed["state"], listed["pid"], listed["endpoint"]) == ("COMPLETE", None, None)
    final = json.loads((site.folder / "runs/latest/final_snapshot.json").read_text())
    del final["crc"]
    report = json.loads(site.run("report", "--format", "json").stdout)
    assert report["source"] == "file"
    assert {name: report[name] for name in final} == final
    assert final["reason"] == "enough"
    assert [(item["name"], item["value"]) for item in final["counters"]] == [("requests", 7)]
    assert final["series"][0]["count"] == 1


def test_tail_follows_until_the_end(site: Site) -> None:
    """Every line is a snapshot; the last one is terminal; then tail ends by itself."""
    tail = site.popen("tail", "job", "--all", stdout=subprocess.PIPE)
    assert tail.stdout is not None
    first = json.loads(tail.stdout.readline())
    assert (first["name"], first["schema_version"]) == ("job", 1)
    site.emit(RECORDS)
    wait_applied(site, 4)
    assert site.run("stop", "job").returncode == 0
    rest, _ = tail.communicate(timeout=DEADLINE_S)
    snapshots = [json.loads(line) for line in rest.splitlines()]
    assert tail.returncode == 0
    assert snapshots[-1]["state"] == "COMPLETE"
    assert snapshots[-1]["accounting"]["applied"] == 4
    numbers = [item["seq"] for item in snapshots]
    assert numbers == sorted(set(numbers))


def test_tail_counts_lines(site: Site) -> None:
    """`--count` ends tail although the run goes on."""
    done = site.run("tail", "-n", "3")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)


def test_tail_of_records_has_them_all(site: Site) -> None:
    """A reader that joins late gets the records from before, those during, and ends with the run."""
    site.emit([Mark(text="before")])
    wait_applied(site, 1)
    tail = site.popen("tail", "job", "--records", stdout=subprocess.PIPE)
    assert tail.stdout is not None
    assert json.loads(tail.stdout.readline())["text"] == "before"
    site.emit([Mark(text="during")])
    assert json.loads(tail.stdout.readline())["text"] == "during"
    assert site.run("stop", "job").returncode == 0
    rest, _ = tail.communicate(timeout=DEADLINE_S)
    assert (tail.returncode, rest) == (0, "")
    again = site.run("tail", "job", "--records").stdout.splitlines()
    assert [json.loads(line)["text"] for line in again] == ["before", "during"]


def test_ctrl_c_leaves_the_run_alone(site: Site) -> None:
    """Interrupting a viewer exits with 130, quietly, and the run goes on."""
    tail = site.popen("tail", "job", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert tail.stdout is not None
    tail.stdout.readline()
    tail.send_signal(signal.SIGINT)
    _, said = tail.communicate(timeout=DEADLINE_S)
    assert (tail.returncode, said) == (130, "")
    assert json.loads(site.run("ls", "--json").stdout)[0]["pid"] == site.aggregator.pid


def test_a_killed_aggregator_is_dead_and_said_so(site: Site) -> None:
    """The command ls calls a killed aggregator DEAD.

    After SIGKILL the commands status, stop and tail end with one line.
    """
    site.emit(RECORDS)
    wait_applied(site, 4)
    site.aggregator.kill()
    site.aggregator.wait(DEADLINE_S)
    (listed,) = json.loads(site.run("ls", "--json").stdout)
    assert (listed["state"], listed["name"], listed["pid"]) == ("DEAD", "job", None)
    for command in ("status", "stop", "tail", "report"):
        done = site.run(command, "job")
        assert (done.returncode, done.stdout) == (1, ""), command
        assert done.stderr.count("\n") == 1, done.stderr


def test_a_stopped_aggregator_costs_a_bounded_wait(site: Site) -> None:
    """A frozen aggregator does not hang ls, which shows the state that was announced."""
    site.aggregator.send_signal(signal.SIGSTOP)
    try:
        (listed,) = json.loads(site.run("ls", "--json").stdout)
    finally:
        site.aggregator.send_signal(signal.SIGCONT)
    assert listed["pid"] == site.aggregator.pid


def test_stop_without_waiting(site: Site) -> None:
    """`--no-wait` returns at once; `--interrupt` marks the result."""
    assert site.run("stop", "job", "--no-wait", "--interrupt", "--reason", "changed my mind").returncode == 0
    assert site.aggregator.wait(DEADLINE_S) in (0, 5)
    final = json.loads((site.folder / "runs/latest/final_snapshot.json").read_text())
    assert (final["state"], final["completeness"], final["reason"]) == (
        "INTERRUPTED",
        "interrupted",
        "changed my mind",
    )


def test_the_histogram_log_is_written(site: Site) -> None:
    """`report --format hlog -o FILE` writes a log whose lines carry the series."""
    site.emit(RECORDS)
    wait_applied(site, 4)
    assert site.run("stop", "job").returncode == 0
    done = site.run("report", "job", "-o", "out.hlog")
    assert (done.returncode, done.stderr) == (0, "telemetry: wrote out.hlog\n")
    assert "Tag=latency," in (site.folder / "out.hlog").read_text()
