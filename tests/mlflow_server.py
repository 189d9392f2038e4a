"""A real server of MLflow, one for the tests of all workers: it takes seconds to come up."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from tests.ports import free_port


@contextmanager
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a server on a database. The last user ends it."""
    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    with (place / "mlflow-server").open("a+") as users:
        with _alone(users) as before:
            pid, address = (int(before[0]), before[1]) if before else _started(place)
            users.write(f"{pid} {address}\n")
        try:
            _comes_up(address, place)
            yield address
        finally:
            with _alone(users) as all_users:
                users.truncate(0)
                users.writelines(f"{pid} {address}\n" for _ in all_users[2::2])
                if len(all_users) == 2:
                    os.killpg(pid, signal.SIGKILL)


@contextmanager
def _alone(users: TextIO) -> Iterator[list[str]]:
    """Lock the file and yield the words in it, one line for each user."""
    fcntl.flock(users, fcntl.LOCK_EX)
    users.seek(0)
    yield users.read().split()
    users.flush()
    fcntl.flock(users, fcntl.LOCK_UN)


def _started(place: Path) -> tuple[int, str]:
    """The process group of a server, which is nobody's child: who uses it last ends it. Its address."""
    port = free_port()
    folder = tempfile.mkdtemp(prefix="mlflow-", dir=place)
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder}/m.db", "--artifacts-destination", f"{folder}/files"]
    surroundings = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(
        ["sh", "-c", '"$@" >"$0" 2>&1 </dev/null & echo $!', f"{place}/mlflow.log", *command, "--workers", "1"],
        cwd=folder,
        env={**os.environ, **surroundings},
        check=True,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    return os.getpgid(int(done.stdout)), f"http://127.0.0.1:{port}"


def _comes_up(address: str, place: Path, wait_s: float = 90.0) -> None:
    waiting = threading.Event()
    for _ in range(int(wait_s / 0.05)):
        try:
            with urlopen(f"{address}/health", timeout=5):
                return
        except (URLError, OSError):
            waiting.wait(0.05)
    raise TimeoutError((place / "mlflow.log").read_text())
