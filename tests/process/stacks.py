"""A stack of a test: its folder, its settings, and what its Prometheus answers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from tests.ports import free_port
from tests.process.conftest import Ground

WaitUntil = Callable[..., Any]
SOON_S: Final = 60.0
"""Longest wait on a busy machine for what usually takes a second."""


class Stack:
    """A stack of a test, with ports of its own."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.port = free_port()
        self.folder = ground.folder / "state" / "telemetry" / "stack"
        self.targets = ground.folder / "state" / "telemetry" / "targets"
        self.bin = ground.folder / "bin"
        self.bin.mkdir()
        self.environ = {"PATH": f"{self.bin}:{os.environ['PATH']}"}
        self.settings: dict[str, dict[str, Any]] = {
            "prometheus": {"port": self.port},
            "tempo": {"enabled": False},
            "grafana": {"enabled": False},
        }
        self.general: dict[str, Any] = {"ready_timeout_s": SOON_S}

    def config(self) -> str:
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.general.items()]
        for table, values in self.settings.items():
            lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        return self.ground.program("stack.toml", "\n".join(lines))

    def start(self, *words: str) -> subprocess.Popen[str]:
        return self.ground.telemetry("stack", "up", "--config", self.config(), *words, environ=self.environ)

    def up(self, *words: str) -> tuple[int, str, str]:
        return self.ground.run(
            *("stack", "up", "--detach", "--config", self.config()), *words, environ=self.environ
        )

    def down(self) -> tuple[int, str, str]:
        return self.ground.run("stack", "down")

    def status(self) -> dict[str, Any]:
        _, out, err = self.ground.run("stack", "status", "--json")
        assert out, err
        return dict(json.loads(out))

    def part(self, name: str = "prometheus") -> dict[str, Any]:
        """Return a part of the status. A stack that is just starting does not list it yet."""
        nothing = {"name": name, "state": "", "pid": None}
        return next((part for part in self.status()["parts"] if part["name"] == name), nothing)

    def ask(self, path: str, **query: str) -> Any:
        """The data that Prometheus answers with; None if it does not answer."""
        url = f"http://127.0.0.1:{self.port}{path}?{urlencode(query)}"
        try:
            with build_opener(ProxyHandler({})).open(url, timeout=10) as answer:
                return json.loads(answer.read())["data"]
        except (OSError, HTTPException):
            return None

    def scraped(self) -> list[dict[str, str]]:
        """The labels of the targets that Prometheus has now."""
        data = self.ask("/api/v1/targets", state="active") or {"activeTargets": []}
        return [target["labels"] for target in data["activeTargets"]]

    def values(self, query: str) -> list[dict[str, str]]:
        data = self.ask("/api/v1/query", query=query) or {"result": []}
        return [one["metric"] for one in data["result"]]


def ports(*keys: str) -> dict[str, int]:
    return {key: free_port() for key in keys}


def line_of(process: subprocess.Popen[str], words: str) -> str:
    """Wait for a line of stdout."""
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return line
    raise AssertionError(f"{words!r} is not in the output; {process.stderr and process.stderr.read()}")


def await_ready(process: subprocess.Popen[str]) -> list[str]:
    """Wait until the keeper says that it is ready, which is some time after its servers answer others.

    Returns its messages.
    """
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "press Ctrl-C to end the stack" in line:
            return lines
    raise AssertionError(f"it ended before it was ready: {lines}")
