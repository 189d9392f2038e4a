"""Backends beside a run, killed, stopped, hanging and failing: real writers, and a backend of a third party."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.process.conftest import Ground

from telemetry.supervise.writers import name_of

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
FAULTY = """
import os, time
from msgspec import Struct
from telemetry.backends.items import KINDS
from telemetry.backends.backend import Unavailable

class Options(Struct, frozen=True):
    folder: str
    '''In it are the faults, as files.'''

class Faulty:
    Options, takes, idempotent = Options, KINDS, False
    def __init__(self, options, place):
        self.folder = options.folder
    def open(self, run, state):
        pass
    def write(self, items):
        if os.path.exists(self.folder + "/fails"):
            raise Unavailable("no route to the tracker")
        if os.path.exists(self.folder + "/hangs"):
            time.sleep(600)
        with open(self.folder + "/got", "a") as file:
            file.writelines(item.key + "\\n" for item in items)
    def flush(self):
        pass
    def state(self):
        return {}
    def close(self, *, final):
        pass
    def where(self):
        return self.folder
"""
JOB = """
import os, sys, time, telemetry
with telemetry.start("job") as run:
    step = 0
    while not os.path.exists("enough") or step < 300:
        run.log({"loss": 1 / (step + 1), "step": step}, step=step)
        step += 1
        time.sleep(0.002)
    open("steps", "w").write(str(step))
"""


class Field(Ground):
    """A ground with a backend of a third party, `faulty`, and a job that logs steps until `enough` is there."""

    def __init__(self) -> None:
        super().__init__()
        (self.folder / "plug").mkdir()
        self.program("plug/faulty.py", FAULTY)
        facts = self.folder / "plug" / "faulty-1.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n")
        (facts / "entry_points.txt").write_text("[telemetry.backends]\nfaulty = faulty:Faulty\n")
        self.environ["PYTHONPATH"] = str(self.folder / "plug")
        self.job = self.program("job.py", JOB)

    @property
    def run_folder(self) -> Path:
        return self.folder / "runs" / "latest"

    def begin(self, *flags: str) -> subprocess.Popen[str]:
        """The job under `telemetry run`; returns once each of its writers has written something."""
        child = self.telemetry("run", "--quiet", *flags, "--", sys.executable, self.job)
        names = [name_of(to) for flag, to in pairwise(flags) if flag == "--to"]
        self.until(lambda: all(self.status(name).get("written") for name in names), "all of them write")
        return child

    def enough(self) -> None:
        (self.folder / "enough").touch()

    def close(self) -> None:
        self.enough()  # a job that goes on holds the streams of the command that ran it
        super().close()

    def status(self, name: str) -> dict[str, Any]:
        """A writer's own word; empty before it has said one."""
        try:
            data = (self.run_folder / "backends" / name / "status.json").read_bytes()
            return dict(json.loads(data)["status"])
        except FileNotFoundError:
            return {}

    def told(self, name: str) -> dict[str, Any]:
        """Return a backend's status from the run's newest snapshot, or nothing if there is none."""
        code, out, _ = self.run("status", "--json", "latest")
        stats = json.loads(out)["backends"] if code == 0 else []
        return dict(next((stat for stat in stats if stat["name"] == name), {}))

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.02)

    def steps(self, name: str = "jsonl") -> list[int]:
        """Return the steps that a jsonl writer has, in its order."""
        lines = (self.run_folder / "backends" / name / "data" / "items.jsonl").read_text().splitlines()
        items = [json.loads(line) for line in lines]
        return [item["step"] for item in items if item["item"] == "step" and not item["revision"]]

    def all_steps(self) -> list[int]:
        return list(range(int((self.folder / "steps").read_text())))

    def recorded(self) -> list[int]:
        """Return the steps on the run's record stream, in its order."""
        lines = (self.run_folder / "records" / "records.jsonl").read_text().splitlines()
        return [
            item["step"] for item in map(json.loads, lines) if item.get("type") == "step" and not item["revision"]
        ]

    def got(self) -> list[str]:
        """Keys of what the third party's backend has."""
        return (self.folder / "got").read_text().split()


@pytest.fixture
def field() -> Iterator[Field]:
    made = Field()
    yield made
    made.close()


def test_a_writer_that_is_killed_or_stopped_costs_nobody_anything(field: Field) -> None:
    """All steps are there once, in order: with the one that died, the one that slept, and the one beside them."""
    child = field.begin("--to", "jsonl", "--to", "jsonl:as=killed", "--to", "jsonl:as=stopped")
    killed, stopped = field.status("killed")["pid"], field.status("stopped")["pid"]
    os.kill(killed, signal.SIGKILL)
    os.kill(stopped, signal.SIGSTOP)
    field.until(lambda: field.status("killed")["pid"] != killed, "another is started")
    before = field.status("jsonl")["written"]
    field.until(lambda: field.status("jsonl")["written"] > before + 50, "the others go on")
    os.kill(stopped, signal.SIGCONT)
    field.enough()
    _, said = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, said
    assert "killed: the writer was killed by signal 9; it is started again" in said
    for name in ("jsonl", "killed", "stopped"):
        assert field.steps(name) == field.all_steps()
        assert field.status(name)["state"] == "done"
    assert field.status("killed")["restarts"] == 1


def test_a_run_whose_aggregator_dies_is_delivered_completely(field: Field) -> None:
    """Writers find the next one, and miss nothing: what was before it, in between, and after, in order."""
    child = field.begin("--to", "jsonl")
    [live] = field.live()
    os.kill(live["pid"], signal.SIGKILL)
    before = field.status("jsonl")["written"]
    field.until(lambda: field.status("jsonl")["written"] > before + 100, "it goes on")
    field.until(lambda: field.told("jsonl").get("state") in ("writing", "idle"), "the next one knows of it")
    field.enough()
    _, said = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, said
    assert field.steps() == field.recorded() == field.all_steps()
    assert field.status("jsonl")["state"] == "done"


def test_a_backend_that_fails_is_seen_in_the_run_and_delivered_later(field: Field) -> None:
    """A failing backend is shown with its breaker open, while the one beside it has all.

    The exit states what is left, and a later command delivers it.
    """
    field.environ["TELEMETRY_BACKENDS__FINISH_TIMEOUT_S"] = "3"
    child = field.begin("--to", "jsonl", "--to", f"faulty:folder={field.folder}", "--strict")
    (field.folder / "fails").touch()
    field.until(lambda: field.told("faulty").get("state") == "retrying", "a snapshot that says so")
    field.until(lambda: field.told("faulty").get("failures", 0) > 1, "more than one try")
    assert "no route to the tracker" in field.told("faulty")["last_error"]
    field.enough()
    field.until((field.folder / "steps").exists, "the job's end")
    _, said = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 6, said
    left = re.search(r"faulty: ([\d,]+) records are not delivered \(.*\); telemetry export --resume (\S+)", said)
    assert left, said
    assert field.steps() == field.all_steps()
    report = field.run("report", "--json")
    stats = {stat["name"]: stat for stat in json.loads(report[1])["backends"]}
    assert (stats["jsonl"]["state"], stats["faulty"]["state"]) == ("done", "undelivered")
    assert stats["faulty"]["queued"] == int(left[1].replace(",", ""))
    (field.folder / "fails").unlink()
    code, _, said = field.run("export", "--resume", left[2])
    assert code == 0, said
    delivered = [key for key in field.got() if key.startswith("r")]
    assert sorted(set(delivered), key=lambda key: int(key[1:])) == delivered
    assert len(delivered) == len(field.all_steps())


HANGS = """
import pathlib, time, telemetry
run = telemetry.start("job", to=["jsonl", "faulty:folder=."], finish_timeout_s=4.0)
for step in range(100):
    run.log({"loss": 1.0}, step=step)
while not pathlib.Path(run.directory, "backends", "jsonl", "status.json").exists():
    time.sleep(0.05)  # until the writer runs: what is bounded is its end, not its start
report = run.finish()
print(report.state, {stat.name: stat.state for stat in report.snapshot.backends})
"""


def test_a_backend_that_hangs_does_not_keep_a_program_from_ending(field: Field) -> None:
    """A program ends at the deadline of its finish if a backend hangs.

    The backend that is not through is named in words and in the report.
    """
    (field.folder / "hangs").touch()
    program = field.program("hangs.py", HANGS)
    began = time.monotonic()
    child = field.popen(sys.executable, program)
    out, said = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, said
    assert time.monotonic() - began < 5 * 4.0
    assert out.split(" ", 1)[0] == "COMPLETE"
    assert "'jsonl': 'done', 'faulty': 'undelivered'" in out
    assert len(re.findall(r"telemetry: waiting for faulty, for [12] s more at most\n", said)) == 1, said
    assert re.search(r"faulty: [\d,]+ records are not delivered.*; telemetry export --resume ", said), said
    assert field.steps() == list(range(100))


def test_an_aggregator_alone_has_backends_too(field: Field) -> None:
    """The backends of an aggregator that runs alone are through before it ends."""
    child, endpoint = field.serve("--to", "jsonl")
    field.enough()
    job = field.popen(sys.executable, field.job, environ={"TELEMETRY_ENDPOINT": endpoint})
    job.communicate(timeout=DEADLINE_S)
    assert field.run("stop", "latest")[0] == 0
    child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0
    assert field.steps() == field.all_steps()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_waiting_of_an_aggregator_alone(field: Field, number: signal.Signals) -> None:
    """A signal ends the wait of an aggregator alone.

    Its result is written, and it names what a hanging backend has not got.
    """
    field.environ["TELEMETRY_BACKENDS__FINISH_TIMEOUT_S"] = "600"
    (field.folder / "hangs").touch()
    child, endpoint = field.serve("--to", f"faulty:folder={field.folder}")
    field.enough()
    job = field.popen(sys.executable, field.job, environ={"TELEMETRY_ENDPOINT": endpoint})
    job.communicate(timeout=DEADLINE_S)
    assert field.run("stop", "latest")[0] == 0
    assert child.stderr is not None
    waiting = (
        r"telemetry: waiting for faulty \([\d,]+ records not delivered\)"
        "; press Ctrl-C or send a signal to stop waiting\n"
    )
    assert re.fullmatch(waiting, child.stderr.readline())
    child.send_signal(number)
    _, said = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, said
    assert re.search(r"faulty: .*not .*delivered.*; telemetry export --resume ", said), said
    assert field.final()["state"] == "COMPLETE"


def test_a_signal_ends_the_waiting_of_a_command_that_is_over(field: Field) -> None:
    """The report comes, with what a backend that hangs has not got; the code is that of the command."""
    field.environ["TELEMETRY_BACKENDS__FINISH_TIMEOUT_S"] = "600"
    (field.folder / "hangs").touch()
    child = field.telemetry("run", "--to", f"faulty:folder={field.folder}", "--", sys.executable, "-c", "pass")
    assert child.stderr is not None
    line = ""
    while "waiting for faulty" not in line:
        line = child.stderr.readline()
        assert line
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, said
    assert re.search(r"faulty: .*not .*delivered.*; telemetry export --resume ", said), said
    assert "files: " in said


EVERYTHING = """
import os, time, telemetry
with telemetry.start("job") as run:
    latency, read = run.series("latency", "ms"), run.counter("read", "KiB")
    depth, chat = run.gauge("queue.count"), run.requests("chat", model="m")
    while not os.path.exists("enough"):
        with run.span("step"), run.span("load"):
            latency.record(1.5)
            read.add(2)
            depth.set(3)
        request = chat.issue(input_tokens=3)
        request.chunk(tokens=2)
        request.chunk(tokens=1)
        request.complete(finish_reason="stop")
        chat.issue().fail("refused")
        run.log({"loss": 0.5}, step=1)
        time.sleep(0.01)
"""


def test_promtool_has_no_objections_to_the_page_of_a_run(field: Field, require_tool: Callable[[str], str]) -> None:
    """A run with all kinds of figures and the figures of the machine, which are recorded by default."""
    promtool, job = require_tool("promtool"), field.program("everything.py", EVERYTHING)
    field.telemetry(
        "run", "--quiet", "--collect", "host", "--to", "prometheus:port=0,linger=0", "--", sys.executable, job
    )
    wanted = ("process_count_value", "chat_itl_seconds", "span_self_load", "queue_count_value", "read_bytes_total")

    field.until(lambda: field.status("prometheus").get("place"), "an address")
    address, pages = field.status("prometheus")["place"], [""]

    def is_whole() -> bool:
        with suppress(OSError), urllib.request.urlopen(address, timeout=10) as answer:
            pages.append(answer.read().decode())
        return all(name in pages[-1] for name in wanted)

    field.until(is_whole, f"{address} has all figures")
    command = [promtool, "check", "metrics"]
    checked = subprocess.run(command, input=pages[-1], text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
