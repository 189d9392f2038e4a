"""Processes to measure: a run with its gateway, and the bare application."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.harness import ROOT

_TICKS_S: Final = os.sysconf("SC_CLK_TCK")
_URL: Final = re.compile(r"http://[0-9.]+:[0-9]+")
_END_S: Final = 20.0


class Service(NamedTuple):
    """A server to measure."""

    url: str
    pids: dict[str, int]
    """Its processes by name."""

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU time of each process so far, in seconds."""
        return {name: _cpu_s(pid) for name, pid in self.pids.items()}


@contextmanager
def bare() -> Iterator[Service]:
    """Start the bare application."""
    child = _started([sys.executable, "-m", "benchmarks.gateway.bare"], os.environ)
    try:
        yield Service(_address(child), {"server": child.pid})
    finally:
        _end(child)


@contextmanager
def gateway(*words: str) -> Iterator[Service]:
    """Start a run and its gateway. `words` are options of `telemetry serve`."""
    folder = tempfile.mkdtemp(prefix="tm")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TELEMETRY_")}
    environ |= {"XDG_RUNTIME_DIR": folder, "XDG_CONFIG_HOME": folder, "TENSORBOARD_DIR": f"{folder}/tb"}
    telemetry = [sys.executable, "-m", "telemetry"]
    where = ["--dir", f"{folder}/runs"]
    children = [_started([*telemetry, "serve", "--name", "bench", *where, *words], environ)]
    try:
        _line(children[0], "TELEMETRY_ENDPOINT=")
        children.append(_started([*telemetry, "gateway", "bench", "--listen", "127.0.0.1:0"], environ))
        pids = {"aggregator": children[0].pid, "gateway": children[1].pid}
        yield Service(_address(children[1]), pids)
    finally:
        for child in reversed(children):
            _end(child)
        shutil.rmtree(folder, ignore_errors=True)


def _started(command: list[str], environ: os._Environ[str] | dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


def _line(child: subprocess.Popen[str], text: str) -> str:
    """Return the next line on stderr that contains a text. Raise RuntimeError if the process ends first."""
    assert child.stderr is not None
    for line in child.stderr:
        if text in line:
            return line
    raise RuntimeError(f"{child.args} ended early")


def _address(child: subprocess.Popen[str]) -> str:
    found = _URL.search(_line(child, "http://"))
    assert found is not None
    return found[0]


def _end(child: subprocess.Popen[str]) -> None:
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=_END_S)
        return
    child.kill()
    child.communicate()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_S
