"""`telemetry run --capture locust`: load tests against a local server, in one process and in several."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.homes.trained import Trained, trained
from tests.ports import free_port

pytestmark = pytest.mark.timeout(300)

LOCUSTFILE = """
import gevent
from locust import FastHttpUser, HttpUser, User, constant, task

class Web(HttpUser):
    wait_time = constant(0.02)

    @task
    def call(self):
        self.client.get("/items/7", name="/items/[id]")
        self.client.post("/broken")
        with self.client.get("/items/8", name="/checked", catch_response=True) as response:
            response.failure("too short")

class Fast(FastHttpUser):
    wait_time = constant(0.02)

    @task
    def call(self):
        self.client.get("/fast?token=hunter2")
        self.client.get("/missing")
        self.client.get("http://127.0.0.1:1/", name="/refused")

class Broker(User):
    wait_time = constant(0.02)

    @task
    def publish(self):
        fire = self.environment.events.request.fire
        gevent.sleep(0.01)
        fire(request_type="MQTT", name="publish", response_time=10.5, response_length=3, exception=None, context={})
        fire(request_type="MQTT", name="notice", response_time=None, response_length=3, exception=None, context={})
"""
BY_HAND = """
import sys
import telemetry
from locust import FastHttpUser, events, task
from locust.env import Environment
from telemetry.integrations import locust as capture

class Fast(FastHttpUser):
    host = sys.argv[1]

    @task
    def call(self):
        self.client.get("/fast")

def call():
    user.client.get("/fast")

before = Environment.__init__
with telemetry.start("by hand") as run:
    capture.install()
    capture.install()
    user = Fast(Environment(events=events))
    Environment(events=events)
    call()
    capture.uninstall()
    assert Environment.__init__ is before
    call()
    capture.install()
    call()
print(run.report.completeness, run.report.series("http.latency").count)
"""


class Pages(BaseHTTPRequestHandler):
    """Pages of 10 bytes. The status is in the path."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(500 if self.path == "/broken" else 404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", "10")
        self.end_headers()
        self.wfile.write(b"0123456789")

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """Address of a server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class LoadTest:
    """A load test that has ended."""

    run: Trained
    host: str
    counts: dict[str, tuple[int, int]]
    """Name of an endpoint → requests and failures as Locust counts them."""
    processes: int


@pytest.fixture(scope="module", params=[1, 2])
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, host: str) -> LoadTest:
    """A load test of six users, in one process, or in two workers with a master."""
    folder = tmp_path_factory.mktemp("locust")
    (folder / "locustfile.py").write_text(LOCUSTFILE)
    command = [sys.executable, "-m", "locust", "--headless", "-u", "6", "-r", "6", "-t", "4s", "--host", host]
    command += ["--exit-code-on-error", "0", "--json-file", "result", "--only-summary"]
    if request.param > 1:
        port = str(free_port())
        command += ["--processes", str(request.param), "--master-bind-port", port, "--master-port", port]
    run = trained(folder, "locust", *command)
    stats = json.loads((folder / "result.json").read_text())
    counts = {f"{stat['method']} {stat['name']}": (stat["num_requests"], stat["num_failures"]) for stat in stats}
    return LoadTest(run, host, counts, request.param)


def test_every_request_is_recorded(ended: LoadTest) -> None:
    """The run is complete, and has as many requests of each endpoint as Locust counts."""
    report, counts = ended.run.report, dict(ended.counts)
    untimed, _ = counts.pop("MQTT notice")
    total, failed = (sum(column) for column in zip(*counts.values(), strict=True))
    assert report.completeness == "complete"
    assert report.counter("http.without_duration").value == untimed > 0
    assert report.counter("http.issued").value == total
    assert report.series("http.latency").count == report.series("http.response_length").count == total - failed
    durations = {stat.labels["name"]: stat.count for stat in report.snapshot.series if stat.name == "http.duration"}
    assert durations == {
        name.replace("hunter2", "***"): requests for name, (requests, _) in counts.items() if requests
    }
    (publish,) = (stat for stat in report.snapshot.series if stat.labels.get("name") == "MQTT publish")
    assert publish.max == 10.5


def test_failures_have_a_reason(ended: LoadTest) -> None:
    """A reason is the status, the text that the program gave, or the class of the exception."""
    failures = {
        stat.labels["reason"]: stat.value for stat in ended.run.report.snapshot.counters if "reason" in stat.labels
    }
    assert failures == {
        "status 500": ended.counts["POST /broken"][1],
        "status 404": ended.counts["GET /missing"][1],
        "too short": ended.counts["GET /checked"][1],
        "ConnectionRefusedError": ended.counts["GET /refused"][1],
    }


def test_users_and_moments_are_recorded(ended: LoadTest) -> None:
    """The number of users and the marks come from one process, the master if there is one."""
    report = ended.run.report
    users = report.gauge("users")
    assert (users.value, users.max) == (0, 6)
    assert [mark.text for mark in report.snapshot.marks] == [
        "load test began",
        "6 users spawned",
        "load test ended",
    ]
    assert ended.run.params["locust.host"] == ended.host


def test_each_worker_is_a_producer(ended: LoadTest) -> None:
    """A worker records its own requests."""
    producers = [producer for producer in ended.run.report.snapshot.producers if producer.emitted]
    assert len(producers) == (1 if ended.processes == 1 else ended.processes + 1)


def test_install_and_uninstall_by_hand(tmp_path: Path, host: str) -> None:
    """Environments that share their events record a request once, and none after `uninstall`."""
    done = subprocess.run(
        [sys.executable, "-c", BY_HAND, host],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["complete", "2"]
