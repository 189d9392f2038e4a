"""A tour: each command of `telemetry` does its work once, in a real process, on runs of one small job."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq
from tests.notification_receiver import NotificationReceiver
from tests.process.conftest import Ground
from tests.unit.integrations.endpoints import bus

from telemetry.cli.main import COMMANDS
from telemetry.integrations.endpoints import decode

WaitUntil = Callable[..., Any]

JOB = """
import sys, telemetry
users = int(sys.argv[1])
with telemetry.start("job") as run:
    run.params({"users": users})
    requests = run.requests("chat")
    latency = run.series("latency", unit="ms")
    for number in range(400):
        latency.record(users + number / 400)
        with run.span("work"):
            run.log({"loss": 1 / (1 + number)}, step=number)
        requests.issue().complete()
"""
MEANWHILE_S = 60.0

FINISHED: dict[str, tuple[str, str]] = {
    "ls": ("ls", r"one-\S+"),
    "status": ("status one", r"COMPLETE|complete: "),
    "report": ("report one --format md", r"\| latency"),
    "gate": ("gate one p99(latency)<3ms", r"^pass"),
    "compare": ("compare one two", r"latency p50"),
    "curve": ("curve one two --by users", r"users"),
    "merge": ("merge one two --force --name both", r"both"),
    "import": ("import values.csv --columns time=when,value=ms --name values", r"complete: values, 2 of 2 events"),
    "seal": ("seal one -o card.svg", r"^sha256 [0-9a-f]{64}$"),
    "open": ("open one --no-browser", r"/runs/one-.*/report\.html$"),
    "timeline": ("timeline one -o -", r'"name":"work"'),
    "export": ("export one --to jsonl", r"jsonl +done"),
    "recover": ("recover one --exact", r"complete: "),
    "replay": ("replay one --speed max", r"complete: "),
    "top": ("top one --once", r"latency"),
    "nodes": ("nodes one", r"no nodes"),
    "clean": ("clean --older 30d --yes", r"no run to remove in .*, and no comparison"),
    "capture": ("capture list", r"lightning"),
    "plugins": ("plugins", r"jsonl"),
    "config": ("config show", r"^dir = "),
    "completion": ("completion bash", r"complete "),
    "keys": ("keys new", r"key pair created"),
    "doctor": ("doctor --quick", r"versions"),
    "bench": ("bench --seconds 0.2", r"record"),
    "demo": ("demo --requests 200", r"complete"),
}
"""Command → how it is called on finished runs, and what it then prints."""
BY_THEMSELVES = {
    "run",
    "serve",
    "tail",
    "stop",
    "gateway",
    "feed",
    "notify",
    "stack",
    "sweep",
    "calibrate",
    "ab",
    "verify",
}


@pytest.fixture(scope="module")
def site() -> Iterator[Ground]:
    """A folder with the runs `one` and `two` of the job."""
    ground = Ground()
    try:
        ground.program("job.py", JOB)
        ground.program("values.csv", "when,ms\n2026-11-01T10:00:00Z,1.5\n2026-11-01T10:00:01Z,2.5\n")
        for name, users in (("one", "1"), ("two", "2")):
            code, _, err = ground.run("run", "--name", name, "--", sys.executable, "job.py", users)
            assert code == 0, err
            assert re.search(r"^complete: ", err, re.MULTILINE), err
        yield ground
    finally:
        ground.close()


@pytest.fixture
def live(site: Ground) -> Iterator[subprocess.Popen[str]]:
    """An aggregator called `job`, by `telemetry serve`."""
    aggregator, _ = site.serve()
    yield aggregator
    if aggregator.poll() is None:
        aggregator.send_signal(signal.SIGTERM)
        aggregator.communicate(timeout=MEANWHILE_S)


def test_the_tour_visits_every_command() -> None:
    """A new command needs a line above, or a test of its own below."""
    assert FINISHED.keys() | BY_THEMSELVES == COMMANDS.keys()
    assert not FINISHED.keys() & BY_THEMSELVES


@pytest.mark.parametrize("command", FINISHED)
def test_a_command_on_finished_runs(site: Ground, command: str) -> None:
    """Each command on finished runs ends well and prints what it is for."""
    words, printed = FINISHED[command]
    assert words.split()[0] == command
    code, out, err = site.run(*words.split())
    assert code == 0, (out, err)
    assert re.search(printed, out + err, re.MULTILINE), (out, err)


def test_verify(site: Ground) -> None:
    """A card is verified against its run."""
    assert site.run("seal", "two", "-o", "two.svg")[0] == 0
    code, out, err = site.run("verify", "two.svg", "two")
    assert (code, out.splitlines()[-1]) == (0, "verified: card, files and figures"), err


def test_sweep(site: Ground) -> None:
    """A run for each value."""
    code, out, err = site.run(
        *(
            "sweep",
            "--param",
            "users=1,4",
            "--name",
            "s{users}",
            "--quiet",
            "--",
            sys.executable,
            "job.py",
            "{users}",
        )
    )
    assert code == 0, err
    assert re.search(r"^ *1\b.*\n *4\b", out, re.MULTILINE), out


def test_calibrate(site: Ground) -> None:
    """Two runs of a command, and how much they differ."""
    code, out, err = site.run("calibrate", "--runs", "2", "--json", "--", sys.executable, "job.py", "1")
    assert code == 0, err
    assert json.loads(out)["runs"] == 2


def test_ab(site: Ground) -> None:
    """Two commands by turns."""
    code, out, err = site.run("ab", "--pairs", "2", "--", "true", "--", "false")
    assert (code, out.split(":")[0]) == (3, "can't tell"), err


def test_serve_tail_and_stop(site: Ground, live: subprocess.Popen[str]) -> None:
    """A run from its first snapshot to its last one."""
    tail = site.telemetry("tail", "job", "--all")
    assert tail.stdout is not None
    assert json.loads(tail.stdout.readline())["state"] in ("INITIALIZE", "LIVE")
    code, _, err = site.run("stop", "job")
    assert code == 0, err
    rest, _ = tail.communicate(timeout=MEANWHILE_S)
    assert json.loads(rest.splitlines()[-1])["state"] == "COMPLETE"
    assert live.wait(MEANWHILE_S) == 0


def test_gateway(site: Ground, live: subprocess.Popen[str]) -> None:
    """A figure that arrives by HTTP is in the run."""
    gateway = site.telemetry("gateway", "job", "--listen", "127.0.0.1:0")
    assert gateway.stderr is not None
    address = re.search(r"http://127\.0\.0\.1:\d+", gateway.stderr.readline())
    assert address
    body = json.dumps({"events": [{"type": "count", "name": "requests", "value": 3}]}).encode()
    request = urllib.request.Request(f"{address[0]}/v1/events", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=MEANWHILE_S) as answer:
        assert json.load(answer)["recorded"] == 1
    gateway.send_signal(signal.SIGTERM)
    gateway.communicate(timeout=MEANWHILE_S)


def test_feed(site: Ground, live: subprocess.Popen[str]) -> None:
    """Another program's benchmark, from its start to its end."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as publisher:
        address = f"ipc://{site.folder}/feed"
        publisher.bind(address)
        feed = site.telemetry("feed", f"endpoints:{address}", "job")
        assert publisher.poll(MEANWHILE_S * 1_000), "the feed did not subscribe"
        for message in (bus.single(decode.STARTED, 1_000), bus.single(decode.ENDED, 2_000)):
            publisher.send(message)
        _, err = feed.communicate(timeout=MEANWHILE_S)
    assert feed.returncode == 0, err


def test_notify(site: Ground) -> None:
    """A message arrives at a receiver."""
    with NotificationReceiver() as receiver:
        code, out, err = site.run("notify", "test", receiver.url)
        assert code == 0, (out, err)
        assert len(receiver.got) == 1


def test_stack(site: Ground) -> None:
    """The command `stack status` without a stack names the command that starts one."""
    code, _, err = site.run("stack", "status")
    assert code == 1
    assert "telemetry stack up" in err
