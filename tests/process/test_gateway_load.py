"""A gateway under load: large bodies, small buffers, and many requests at once."""

from __future__ import annotations

import json
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.process.conftest import DEADLINE_S
from tests.process.gateways import Gateway, Site, counters
from tests.process.gateways import site as site  # noqa: PLC0414 – a fixture

MIB = 1 << 20
WaitUntil = Callable[..., Any]
CONTROL_S = 5.0


def post(gateway: Gateway, path: str, body: Any) -> httpx.Response:
    """Send a request over a connection of its own."""
    return httpx.post(gateway.url + path, json=body, timeout=10 * DEADLINE_S, trust_env=False)


def spans(number: int) -> dict[str, Any]:
    """Return a request of OTLP."""
    now_ns = time.time_ns()
    each = {
        "name": "chat",
        "startTimeUnixNano": str(now_ns),
        "endTimeUnixNano": str(now_ns + 1_000),
        "attributes": [{"key": f"key{number}", "value": {"stringValue": "text"}} for number in range(8)],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [each] * number}]}]}


def events(number: int) -> dict[str, Any]:
    """Return a metric of the timeline."""
    each = {"name": "rollout", "ph": "X", "ts": time.time_ns() // 1_000, "dur": 5, "args": {"a": "b" * 200}}
    return {"step": 1, "metric_name": "timeline", "metric_value": [each] * number}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body", "number"), [("/v1/traces", spans, 20_000), ("/metrics/log_metric", events, 40_000)]
)
def test_a_large_body_does_not_hold_up_others(site: Site, path: str, body: Any, number: int) -> None:
    """Short requests are answered while it is recorded, and each of its spans arrives.

    A wait is the time between two answers to any of three clients, counted in the gateway's own processor time:
    what other programs take of this machine delays both. The spans are fewer than those that may wait for a slow
    aggregator, after which every request would be refused.
    """
    site.begin()
    gateway = site.gateway()
    content = json.dumps(body(number))
    assert 8 * MIB < len(content) < 16 * MIB
    answered_s: list[float] = []
    done = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=gateway.url, timeout=DEADLINE_S, trust_env=False) as client:
            while not done.is_set():
                assert client.get("/metrics/health").status_code == 200
                answered_s.append(processor_s(gateway))

    begun_s = processor_s(gateway)
    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    answer = gateway.client.post(path, content=content, headers={"Content-Type": "application/json"})
    ended_s = processor_s(gateway)
    done.set()
    for asker in askers:
        asker.join()
    assert answer.status_code in (200, 202), answer.text
    waits_s = [after - before for before, after in pairwise([begun_s, *sorted(answered_s), ended_s])]
    assert max(waits_s) < (ended_s - begun_s) / 2
    [series] = site.stop()["series"]
    assert series["count"] == number


def test_the_buffer_of_programs_is_not_that_of_the_gateway(site: Site) -> None:
    """A small one would drop events of a large batch that the gateway then calls recorded."""
    site.begin()
    environ = {"TELEMETRY_EMIT__BUFFER_EVENTS": "1000", "TELEMETRY_EMIT__POLICY": "block"}
    for policy in ("drop", "block"):
        gateway = site.gateway(environ=environ | {"TELEMETRY_EMIT__POLICY": policy})
        answer = gateway.post(*[{"type": "count", "name": policy}] * 10_000)
        assert answer.json()["recorded"] == 10_000
    final = site.stop()
    assert counters(final) == {"drop": 10_000.0, "block": 10_000.0}
    assert final["completeness"] == "complete"


@pytest.mark.slow
def test_requests_to_a_silent_aggregator_wait_together(site: Site) -> None:
    """Each waits for one timeout, however many there are, and none of them is recorded."""
    site.begin()
    gateway = site.gateway()
    assert gateway.count().status_code == 200
    site.aggregator.send_signal(signal.SIGSTOP)

    def ask(step: int) -> tuple[int, str, float]:
        begun = time.monotonic()
        answer = post(gateway, "/metrics/report_step", {"step": step})
        return answer.status_code, answer.json()["message"], time.monotonic() - begun

    with ThreadPoolExecutor(16) as executor:
        answers = list(executor.map(ask, range(16)))
    site.aggregator.send_signal(signal.SIGCONT)
    assert {status for status, _, _ in answers} == {503}
    assert all("nothing was recorded" in message for _, message, _ in answers)
    assert max(took_s for _, _, took_s in answers) < 8 * CONTROL_S
    assert [axis["closed"] for axis in site.stop()["axes"]] == [0]


def test_silent_connections_keep_nobody_out(site: Site) -> None:
    """Silent connections, more than the gateway has descriptors, keep no client out.

    The run loses nothing, and the gateway prints nothing.
    """
    site.begin()
    gateway = site.gateway(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
    connections = [socket.create_connection(gateway.address) for _ in range(400)]
    for _ in range(3):
        assert post(gateway, "/v1/events", {"events": [{"type": "count", "name": "n"}]}).status_code == 200
    final = site.stop()
    assert (counters(final), final["completeness"]) == ({"n": 3.0}, "complete")
    assert gateway.end() == ""
    for connection in connections:
        connection.close()


def test_a_reader_that_does_not_read_holds_little(site: Site, wait_until: WaitUntil) -> None:
    """A snapshot is sent in parts. Without them, each of these clients would hold a whole one."""
    site.begin()
    gateway = site.gateway()
    for first in (0, 1_000):
        names = [f"{'series' * 30}{first + number}" for number in range(1_000)]
        assert gateway.post(*({"type": "sample", "name": name, "value": 1} for name in names)).status_code == 200
    large = len(wait_until(lambda: whole(gateway), DEADLINE_S, "a snapshot with all series"))
    before = resident(gateway)
    connections = []
    for _ in range(100):
        connection = socket.create_connection(gateway.address)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.sendall(b"GET /v1/stream?every_s=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connections.append(connection)
    number = gateway.get("/v1/snapshot").json()["seq"]
    wait_until(lambda: gateway.get("/v1/snapshot").json()["seq"] > number + 2, DEADLINE_S, "three snapshots")
    assert resident(gateway) - before < 100 * large / 2
    for connection in connections:
        connection.close()


def whole(gateway: Gateway) -> bytes:
    """Return a snapshot, or nothing if it does not have all series yet."""
    content = gateway.get("/v1/snapshot").content
    return content if len(json.loads(content)["series"]) == 2_000 else b""


def processor_s(gateway: Gateway) -> float:
    """Return the processor time of all threads of a gateway: `clock_getcpuclockid` of its process."""
    return time.clock_gettime((~gateway.child.pid << 3) | 2)


def resident(gateway: Gateway) -> int:
    """Return the memory of a gateway in bytes."""
    pages = Path(f"/proc/{gateway.child.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()
