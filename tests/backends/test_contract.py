"""Tests that each of our backends keeps the contract of all backends."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.backends import (
    reading_aim,
    reading_clearml,
    reading_jsonl,
    reading_mlflow,
    reading_otlp,
    reading_parquet,
    reading_prometheus,
    reading_tensorboard,
    reading_trackio,
    reading_wandb,
)
from tests.backends.otlp_receiver import HttpReceiver
from tests.notification_receiver import NotificationReceiver

from telemetry.testing.backends import BackendContract, BackendEssentials, Written
from telemetry.testing.sample import EVERY_S

pytestmark = pytest.mark.slow


def nowhere(tmp_path: Path) -> Path:
    """Return a path at which no folder can be made."""
    file = tmp_path / "a file"
    file.touch()
    return file / "below"


class Refusing(BaseHTTPRequestHandler):
    """Knows nobody."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_error(401, "who are you?")

    do_POST = do_PUT = do_GET

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of a server that refuses every key."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class TestJsonl(BackendContract):
    def to(self, tmp_path: Path) -> str:
        return "jsonl"

    def read_back(self, folder: Path, where: str) -> Written:
        return reading_jsonl.read_back(folder, where)

    def unfit(self, tmp_path: Path) -> str:
        return f"jsonl:path={nowhere(tmp_path)}"


class TestConsole(BackendContract):
    """Lines for people: the newest ones."""

    reads_back = False
    writes_files = False

    def to(self, tmp_path: Path) -> str:
        return "console:every_s=0"


class TestTensorBoard(BackendContract):
    package = "tensorboard"

    def to(self, tmp_path: Path) -> str:
        return "tensorboard"

    def read_back(self, folder: Path, where: str) -> Written:
        return reading_tensorboard.read_back(folder, where)

    def unfit(self, tmp_path: Path) -> str:
        return f"tensorboard:logdir={nowhere(tmp_path)}"


class TestParquet(BackendContract):
    """The contract for `parquet`, which writes once, at the end of the run."""

    package = "pyarrow"
    writes_files = False
    keeps_rates = False

    def to(self, tmp_path: Path) -> str:
        return f"parquet:path={tmp_path / 'lake'},every_s={EVERY_S}"

    def read_back(self, folder: Path, where: str) -> Written:
        return reading_parquet.read_back(folder, where)

    def unfit(self, tmp_path: Path) -> str:
        return f"parquet:path={nowhere(tmp_path)}"


class TestTrackio(BackendContract):
    package = "trackio"

    @pytest.fixture(autouse=True)
    def server(self, refusing: str) -> None:
        self.address = refusing

    def to(self, tmp_path: Path) -> str:
        return "trackio"

    def read_back(self, folder: Path, where: str) -> Written:
        return reading_trackio.read_back(folder, where)

    def unfit(self, tmp_path: Path) -> str:
        return f"trackio:server={self.address}"


class TestMLflow(BackendEssentials):
    package = "mlflow"

    @pytest.fixture(autouse=True)
    def server(self, refusing: str) -> None:
        self.address = refusing

    def to(self, tmp_path: Path) -> str:
        return "mlflow"

    def read_back(self, folder: Path, where: str) -> Written:
        return reading_mlflow.read_back(folder, where)

    def unfit(self, tmp_path: Path) -> str:
        return f"mlflow:uri={self.address}"

    def environment(self, tmp_path: Path) -> Mapping[str, str]:
        return {"PYTHONPATH": str(Path(__file__).with_name("skinny"))}


class TestWandb(BackendEssentials):
    package = "wandb"
    writes_files = False  # a program of W&B's does

    def to(self, tmp_path: Path) -> str:
        return "wandb:mode=offline"

    def read_back(self, folder: Path, where: str) -> Written:
        return reading_wandb.read_back(folder, where)

    def unfit(self, tmp_path: Path) -> str:
        return "wandb:mode=online"

    def environment(self, tmp_path: Path) -> Mapping[str, str]:
        return {"HOME": str(tmp_path), "WANDB_API_KEY": ""}


class TestClearML(BackendEssentials):
    package = "clearml"

    def to(self, tmp_path: Path) -> str:
        return "clearml:mode=offline"

    def read_back(self, folder: Path, where: str) -> Written:
        return reading_clearml.read_back(folder, where)

    def unfit(self, tmp_path: Path) -> str:
        return "clearml:mode=online"

    def environment(self, tmp_path: Path) -> Mapping[str, str]:
        return {"HOME": str(tmp_path)}


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="aim is not made for this Python")
class TestAim(BackendEssentials):
    package = "aim"

    def to(self, tmp_path: Path) -> str:
        return "aim"

    def read_back(self, folder: Path, where: str) -> Written:
        return reading_aim.read_back(folder, where)

    def unfit(self, tmp_path: Path) -> str:
        return f"aim:repo={nowhere(tmp_path)}"


class TestOtlp(BackendContract):
    package = "opentelemetry"
    writes_files = False
    keeps_rates = False

    @pytest.fixture(autouse=True)
    def server(self, tmp_path: Path, refusing: str) -> Iterator[None]:
        self.refusing = refusing
        with HttpReceiver(tmp_path / "got") as receiver:
            self.receiver = receiver
            yield

    def to(self, tmp_path: Path) -> str:
        return f"otlp:endpoint={self.receiver.endpoint}"

    def read_back(self, folder: Path, where: str) -> Written:
        return reading_otlp.read_back(self.receiver.folder)

    def unfit(self, tmp_path: Path) -> str:
        return f"otlp:endpoint={self.refusing}"


class TestNotify(BackendContract):
    """The contract for `notify`, which reports a few events. The items that it was given can't be read back."""

    package = "apprise"
    reads_back = False
    writes_files = False

    @pytest.fixture(autouse=True)
    def server(self) -> Iterator[None]:
        with NotificationReceiver() as receiver:
            self.receiver = receiver
            yield
        assert sum("ended" in title for title in receiver.titles) <= 1, receiver.titles

    def to(self, tmp_path: Path) -> str:
        return "notify"

    def environment(self, tmp_path: Path) -> Mapping[str, str]:
        return {"TELEMETRY_NOTIFY__URLS": self.receiver.url}


class TestPrometheus(BackendContract):
    """The contract for `prometheus`, which keeps nothing, so its last answer is the result.

    For steps, the answer has the newest values of ranks.
    """

    writes_files = False
    keeps_steps = False
    keeps_rates = False

    def to(self, tmp_path: Path) -> str:
        return "prometheus:port=0"

    def meanwhile(self, folder: Path, where: str) -> None:
        reading_prometheus.meanwhile(folder, where)

    def read_back(self, folder: Path, where: str) -> Written:
        return reading_prometheus.read_back(folder, where)

    def unfit(self, tmp_path: Path) -> str:
        return "prometheus:host=203.0.113.1"
