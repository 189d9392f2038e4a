"""A run with a gateway, and plain HTTP clients of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from tests.processes import processes_with

DEADLINE_S: Final = 120.0
_T = TypeVar("_T")
_PAUSE_S: Final = 0.05
_WAITS: Final = """
import os, time
with open("url.part", "w") as file:
    file.write(os.environ["TELEMETRY_GATEWAY_URL"])
os.rename("url.part", "url")
while not os.path.exists("enough"):
    time.sleep(0.05)
"""


class Answer(NamedTuple):
    """An answer of a gateway."""

    status: int
    body: Any
    """Decoded JSON, or bytes."""
    headers: dict[str, str]


class Client:
    """A client with one kept-alive connection. For one thread."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=DEADLINE_S)
        self.refused = 0
        """Number of connections that were refused."""

    def get(self, path: str) -> Answer:
        return self._ask("GET", path, None, {})

    def post(self, path: str, body: Any, kind: str = "application/json") -> Answer:
        """Post JSON, or bytes as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._ask("POST", path, data, {"Content-Type": kind})

    def insist(self, path: str, body: Any) -> Answer:
        """Post until there is an answer other than 503."""
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                answer = self.post(path, body)
            except (OSError, http.client.HTTPException) as error:
                assert time.monotonic() < deadline_s, f"no answer to {path}"
                self.refused += isinstance(error, ConnectionRefusedError)
                self._connection.close()
            else:
                if answer.status != 503:
                    return answer
                assert time.monotonic() < deadline_s, answer
            time.sleep(_PAUSE_S)

    def confirm(self, path: str, body: Any) -> Answer:
        """Post what may be posted twice until the run has confirmed it. A busy machine may need longer."""
        return until(lambda: _confirmed(self.post(path, body)), "a confirmation")

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        found: Any = response.read()
        if response.getheader("Content-Type", "").startswith("application/json"):
            found = json.loads(found)
        return Answer(response.status, found, dict(response.getheaders()))


class GatewayRun:
    """`telemetry run --gateway 0` around a program that does nothing until the test has done enough."""

    def __init__(self, ground: Any, *flags: str, **options: Any) -> None:
        self._ground = ground
        program = ground.program("waits.py", _WAITS)
        words = ("--name", "job", "--gateway", "0", *flags, "--", sys.executable, program)
        self.process = ground.telemetry("run", *words, **options)
        url = ground.folder / "url"
        until(lambda: url.exists() or self.process.poll() is not None, "the command runs")
        assert url.exists(), self.process.communicate()
        self.url: str = url.read_text()
        self._clients: list[Client] = []

    def client(self) -> Client:
        self._clients.append(Client(self.url))
        return self._clients[-1]

    def gateways(self) -> list[int]:
        """Return the processes of the gateway: one, or none between two."""
        return [pid for pid, words in self._processes() if b"--listen-fd" in words]

    def kill_gateway(self) -> int:
        """Kill the gateway, and return the process that it was."""
        pid = until(self.gateways, "a gateway")[0]
        os.kill(pid, signal.SIGKILL)
        until(lambda: pid not in self.gateways(), "its end")
        return pid

    def end(self, code: int = 0) -> str:
        """End the command, and return what `telemetry run` said on stderr."""
        for client in self._clients:
            client.close()
        (self._ground.folder / "enough").touch()
        _, said = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == code, said
        return str(said)

    def stat(self, backend: str) -> dict[str, Any]:
        """Return the last report of a writer."""
        path = self.folder / "backends" / backend / "status.json"
        return dict(json.loads(path.read_bytes())["status"])

    @property
    def folder(self) -> Path:
        return Path(self._ground.folder / "runs" / "latest")

    def _processes(self) -> Iterator[tuple[int, list[bytes]]]:
        for pid in processes_with(f"XDG_RUNTIME_DIR={self._ground.folder}"):
            with suppress(OSError):
                yield pid, Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


class Steps:
    """Steps of a run as its record log has them."""

    def __init__(self, folder: Path, axis: str = "step") -> None:
        self.closed: dict[int, int] = {}
        """How often a step was closed. Corrections don't count."""
        self.first: dict[int, dict[str, float]] = {}
        """Values when the step closed."""
        self.values: dict[int, dict[str, float]] = {}
        """Values with all corrections."""
        for line in (folder / "records" / "records.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record.get("type") != "step" or record["axis"] != axis:
                continue
            step = record["step"]
            if not record["revision"]:
                self.closed[step] = self.closed.get(step, 0) + 1
                self.first[step] = dict(record["values"])
            self.values.setdefault(step, {}).update(record["values"])


def until(condition: Callable[[], _T], what: str) -> _T:
    """Return the first true value of a condition."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"{what} did not come true"
        time.sleep(0.01)
    return value


def _confirmed(answer: Answer) -> Answer | None:
    return None if answer.status == 202 and "not confirmed" in answer.body["message"] else answer


def in_threads(number: int, work: Callable[[int], object]) -> None:
    """Call a function with 0, 1, … in as many threads. Wait for all, and raise the first error."""
    errors: list[BaseException] = []

    def call(index: int) -> None:
        try:
            work(index)
        except BaseException as error:  # noqa: BLE001 – it is raised again in the thread of the test
            errors.append(error)

    threads = [threading.Thread(target=call, args=(index,), daemon=True) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * DEADLINE_S)
        assert not thread.is_alive(), "a client hangs"
    if errors:
        raise errors[0]
