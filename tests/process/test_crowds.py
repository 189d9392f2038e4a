"""More connections than there are file descriptors: an aggregator turns them away, and the run goes on."""

from __future__ import annotations

import resource
import shlex
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.process.conftest import DEADLINE_S

DESCRIPTORS = 1_000
CROWD = 2_500
EVENTS = 1_000

STRANGERS = f"""
import json, resource, socket, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kind, addresses = sys.argv[1], sys.argv[2:]
held = []

def raw(address):
    family = socket.AF_UNIX if address.startswith("ipc") else socket.AF_INET
    host, _, port = address[6:].rpartition(":")
    where = address[6:] if address.startswith("ipc") else (host, int(port))
    one = socket.socket(family)
    one.setblocking(False)
    while True:
        error = one.connect_ex(where)
        if error != 11:
            return one
        time.sleep(0.001)

if kind == "raw":
    for number in range({CROWD}):
        held.append(raw(addresses[number % len(addresses)]))
        if number % 10 == 0:
            time.sleep(0.002)
else:
    import zmq
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, {CROWD} + 10)
    for number in range({CROWD}):
        one = context.socket(zmq.SUB if number % 2 else zmq.DEALER)
        one.linger = 0
        one.connect(addresses[number % len(addresses)])
        held.append(one)
time.sleep(1.5)
print("here", flush=True)
sys.stdin.read()
"""

PRODUCER = f"""
import sys, telemetry
with telemetry.start("job", finish_timeout_s=5) as run:
    counter = run.counter("visits")
    for line in sys.stdin:
        for _ in range({EVENTS}):
            counter.add()
        print("recorded", flush=True)
"""


def few_descriptors() -> None:
    """Runs in the child: the most that it may open."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def say(child: subprocess.Popen[str], answer: str) -> None:
    """Send a line and wait for the answer."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("go\n")
    child.stdin.flush()
    assert child.stdout.readline().strip() == answer


def serve_few(ground: Any, *words: str, **environ: str) -> tuple[subprocess.Popen[str], str]:
    """An aggregator with few file descriptors that ends when its producers have."""
    environ |= {"TELEMETRY_RUN__ORPHAN_GRACE_S": "0.5"}
    aggregator, endpoint = ground.serve(*words, preexec_fn=few_descriptors, environ=environ)
    return aggregator, shlex.split(endpoint)[0]


def crowd(ground: Any, kind: str, *addresses: str) -> subprocess.Popen[str]:
    """Idle connections that stay until their input ends. The aggregator refuses further ones when this returns."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4 * CROWD:
        pytest.skip("this machine lets a process open too few files")
    path = ground.program("strangers.py", STRANGERS)
    strangers = ground.popen(sys.executable, path, kind, *addresses, stdin=subprocess.PIPE)
    assert strangers.stdout.readline() == "here\n", strangers.communicate()
    deadline_s = time.monotonic() + DEADLINE_S
    while not any("connections are refused" in log.read_text() for log in ground.folder.glob("runs/*/daemon.log")):
        assert time.monotonic() < deadline_s, "no connection was refused"
        time.sleep(0.02)
    return strangers


def producer(ground: Any, endpoint: str) -> subprocess.Popen[str]:
    """A program that records a thousand events for each line it reads."""
    path = ground.program("producer.py", PRODUCER)
    return ground.popen(sys.executable, path, stdin=subprocess.PIPE, environ={"TELEMETRY_ENDPOINT": endpoint})


def check_result(ground: Any, events: int) -> None:
    """The final file has all events and names the refusals."""
    final = ground.final()
    assert (final["completeness"], final["accounting"]["applied"]) == ("complete", events)
    [warning] = [one for one in final["warnings"] if "new connections" in one]
    assert f"limited to {DESCRIPTORS:,} open files and sockets" in warning


@pytest.mark.parametrize("kind", ["raw", "zmq"])
def test_idle_connections_cost_an_ipc_run_nothing(ground: Any, kind: str) -> None:
    """The aggregator lives, takes what its producers send, and writes its result; who comes later gets in again."""
    aggregator, endpoint = serve_few(ground)
    first = producer(ground, endpoint)
    say(first, "recorded")
    folder = endpoint.removesuffix("/ctl")
    strangers = crowd(ground, kind, *(f"{folder}/{leaf}" for leaf in ("ctl", "ev", "sn", "rec")))
    say(first, "recorded")
    assert aggregator.poll() is None
    strangers.kill()
    strangers.wait()
    second = producer(ground, endpoint)
    say(second, "recorded")
    for one in (first, second):
        one.communicate(timeout=30)
        assert one.returncode == 0
    assert aggregator.wait(30) == 0
    check_result(ground, 3 * EVENTS)
    assert not list((ground.folder / "telemetry").glob("*/*"))


def test_a_result_is_written_while_strangers_hold_what_they_got(ground: Any) -> None:
    """The run ends while strangers hold connections, and none of them has to leave.

    The control address of the run is the last that is shut.
    """
    aggregator, endpoint = serve_few(ground)
    only = producer(ground, endpoint)
    say(only, "recorded")
    strangers = crowd(ground, "zmq", endpoint.removesuffix("ctl") + "sn")
    code, _, err = ground.run("status", "latest", "--json")
    assert code == 0, err
    only.communicate(timeout=30)
    assert aggregator.wait(30) == 0
    check_result(ground, EVENTS)
    strangers.kill()


def test_strangers_without_keys_cost_a_run_with_keys_nothing(ground: Any) -> None:
    """Strangers without keys hold a descriptor for seconds each.

    The run, its files and its producers do not notice.
    """
    assert ground.run("keys", "new")[0] == 0
    words = ("--bind", "tcp://127.0.0.1:*")
    aggregator, endpoint = serve_few(ground, *words, TELEMETRY_SECURITY__CURVE="always")
    assert "#" in endpoint
    first = producer(ground, endpoint)
    say(first, "recorded")
    strangers = crowd(ground, "raw", endpoint.partition("#")[0])
    say(first, "recorded")
    first.communicate(timeout=30)
    assert first.returncode == 0
    assert aggregator.wait(30) == 0
    check_result(ground, 2 * EVENTS)
    strangers.kill()
