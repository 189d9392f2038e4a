"""Gateways that are real processes, and what tests ask of them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import httpx
import pytest
from tests.process.conftest import DEADLINE_S, Ground

TOKEN: Final = "0123456789abcdef"
READY: Final = re.compile(r"gateway of \S+ at (http://\S+);")


class Gateway:
    """A gateway, and a client of it. Requests go over kept-alive connections."""

    def __init__(self, child: subprocess.Popen[str], url: str) -> None:
        self.child = child
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=DEADLINE_S, trust_env=False)

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def post(self, *events: dict[str, Any], **options: Any) -> httpx.Response:
        return self.client.post("/v1/events", json={"events": list(events)}, **options)

    def count(self, number: int = 1, name: str = "n") -> httpx.Response:
        return self.post({"type": "count", "name": name, "value": number})

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.client.get(path, **options)

    def end(self) -> str:
        """Wait for the gateway's own end, and return what it said."""
        _, err = self.child.communicate(timeout=DEADLINE_S)
        assert self.child.returncode == 0, err
        return err


class Site(Ground):
    """A place with a run, `job`, and its gateways."""

    aggregator: subprocess.Popen[str]

    def __init__(self) -> None:
        super().__init__()
        self.endpoint = ""
        self.gateways: list[Gateway] = []

    def begin(self, *words: str, **options: Any) -> None:
        self.aggregator, self.endpoint = self.serve(*words, **options)

    def gateway(self, *words: str, run: str = "job", **options: Any) -> Gateway:
        """Start a gateway at a free port, and wait until it answers."""
        child = self.telemetry("gateway", run, *(words or ("--listen", "127.0.0.1:0")), **options)
        assert child.stderr is not None
        lines = [child.stderr.readline()]
        while not (found := READY.search(lines[-1])):
            assert lines[-1], (child.wait(DEADLINE_S), lines)
            lines.append(child.stderr.readline())
        made = Gateway(child, found[1])
        self.gateways.append(made)
        return made

    def stop(self) -> dict[str, Any]:
        """End the run, and return its result."""
        code, _, err = self.run("stop", "job")
        assert code == 0, err
        self.aggregator.communicate(timeout=DEADLINE_S)
        assert self.aggregator.returncode == 0
        return self.final()

    def kill(self) -> None:
        """Kill the aggregator alone."""
        self.aggregator.send_signal(signal.SIGKILL)
        self.aggregator.communicate(timeout=DEADLINE_S)

    def resume(self) -> None:
        """Start the next aggregator of the same run."""
        self.aggregator = self.telemetry("serve", "--resume", "latest")
        assert self.aggregator.stderr is not None
        line = self.aggregator.stderr.readline()
        assert line, self.aggregator.wait(DEADLINE_S)

    def close(self) -> None:
        for gateway in self.gateways:
            gateway.client.close()
        super().close()


class Follower(threading.Thread):
    """A client that follows `/v1/stream` to its end."""

    def __init__(self, gateway: Gateway, every_s: float = 0.0, on_end: Callable[[], object] = lambda: None) -> None:
        super().__init__(daemon=True)
        self.gateway = gateway
        self.every_s = every_s
        self.on_end = on_end
        self.snapshots: list[dict[str, Any]] = []
        self.times_s: list[float] = []
        self.ended = False
        self.start()

    def run(self) -> None:
        with suppress(httpx.TransportError):  # the end of a test kills gateways
            self._follow()

    def _follow(self) -> None:
        path = f"{self.gateway.url}/v1/stream?every_s={self.every_s}"
        with httpx.stream("GET", path, timeout=DEADLINE_S, trust_env=False) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            for name, data in events_of(answer.iter_lines()):
                if name == "end":
                    self.ended = True
                    self.on_end()
                else:
                    self.snapshots.append(data)
                    self.times_s.append(time.monotonic())


def events_of(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read server-sent events: their names and their data."""
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield fields["event"], dict(json.loads(fields["data"]))
            fields = {}


def counters(final: dict[str, Any]) -> dict[str, float]:
    """Return counters without labels by name."""
    return {stat["name"]: stat["value"] for stat in final["counters"] if not stat["labels"]}


@pytest.fixture
def site() -> Iterator[Site]:
    """A place without a run; `begin` starts one."""
    made = Site()
    yield made
    made.close()
