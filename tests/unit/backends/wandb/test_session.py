"""One run of W&B in a process, without W&B: tests/backends has it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry.backends.backend import NotConfigured, Unavailable
from telemetry.backends.items import Artifact
from telemetry.backends.wandb.log import LogEntry
from telemetry.backends.wandb.session import Identity, WandbSession, end_orphan, picture


class CommError(Exception):
    """An error with the name that W&B gives it."""


class AuthenticationError(CommError):
    """An error about keys, with the name that W&B gives it."""


class Run:
    """A run with the calls that a session makes of W&B's run."""

    url = "https://there/run"
    starting_step = 7

    def __init__(self, folder: Path) -> None:
        self.settings = SimpleNamespace(sync_file=str(folder / "run.wandb"))
        self.asked: list[Any] = []
        self.error: Exception | None = None

    def log(self, values: dict[str, Any], *, step: int, commit: bool) -> None:
        self._asked(("log", values, step, commit))

    def save(self, path: str, *, base_path: str, policy: str) -> None:
        self._asked(("save", path, base_path, policy))

    def finish(self, *, exit_code: int) -> None:
        self._asked(("finish", exit_code))

    def _asked(self, what: Any) -> None:
        if self.error is not None:
            raise self.error
        self.asked.append(what)


class Library:
    """W&B's package."""

    def __init__(self, folder: Path) -> None:
        self.run = Run(folder)
        self.error: Exception | None = None
        self.torn_down = 0
        self.options: dict[str, Any] = {}

    def Settings(self, **options: Any) -> dict[str, Any]:
        return options

    def init(self, **options: Any) -> Run:
        if self.error is not None:
            raise self.error
        self.options = options
        return self.run

    def teardown(self, exit_code: int) -> None:
        self.torn_down += 1


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path)


def begun(library: Library, folder: Path, *, offline: bool = False) -> WandbSession:
    return WandbSession(library, Identity("run-1", "p", offline=offline), folder)


def test_a_run_is_resumed_by_its_id(library: Library, tmp_path: Path) -> None:
    """A session resumes its run by the id and watches neither host nor terminal nor code."""
    session = begun(library, tmp_path)
    assert (session.next_row, session.url) == (7, "https://there/run")
    assert (library.options["id"], library.options["resume"]) == ("run-1", "allow")
    assert library.options["settings"]["console"] == "off"
    assert begun(library, tmp_path, offline=True).url == ""
    assert library.options["mode"] == "offline"


@pytest.mark.parametrize(
    ("error", "cause", "expected"),
    [
        (AuthenticationError("no key"), None, NotConfigured),
        (AuthenticationError("busy"), TimeoutError(), Unavailable),
        (CommError("returned error 401: user is not logged in"), None, NotConfigured),
        (CommError("HTTP 500"), None, Unavailable),
        (RuntimeError("whatever"), None, Unavailable),
    ],
)
def test_a_beginning_that_fails_passes_or_does_not(
    library: Library, tmp_path: Path, error: Exception, cause: Exception | None, expected: type[Exception]
) -> None:
    """W&B says of a server that does not answer that the key is wrong."""
    error.__cause__ = cause
    library.error = error
    with pytest.raises(expected):
        begun(library, tmp_path)
    assert library.torn_down == 1


def test_a_process_that_is_gone_is_unavailable(library: Library, tmp_path: Path) -> None:
    """A server that is away, too, but then W&B's process stays; what is wrong with a row is not."""
    session = begun(library, tmp_path)
    library.run.error = CommError("HTTP 500")
    with pytest.raises(Unavailable):
        session.row(0, {"a": 1})
    assert library.torn_down == 0
    library.run.error = TypeError("no number")
    with pytest.raises(TypeError):
        session.row(0, {"a": 1})
    library.run.error = ConnectionResetError()
    with pytest.raises(Unavailable, match="exited"):
        session.row(0, {"a": 1})
    assert library.torn_down == 1


def test_an_end_that_takes_too_long_is_tried_again(library: Library, tmp_path: Path) -> None:
    """An end that takes too long is tried again by another session. W&B calls this one finished."""
    library.run.error = TimeoutError()
    with pytest.raises(Unavailable, match="in time"):
        begun(library, tmp_path).finish(ended=True)
    assert library.torn_down == 1
    library.run.error = None
    begun(library, tmp_path).finish(ended=True)
    assert library.run.asked == [("finish", 0)]


def test_what_a_server_lacks_is_said_again(library: Library, tmp_path: Path) -> None:
    """A row at its number, without what W&B adds itself; of files those that are still there."""
    (tmp_path / "t.json").write_text("{}")
    session = begun(library, tmp_path)
    session.again(LogEntry("row", 3, {"_step": 3, "_runtime": 1.0, "_item": "r1", "a": 2.0}, tmp_path))
    session.again(LogEntry("files", 0, {"t.json": None, "gone.json": None}, tmp_path))
    assert library.run.asked == [
        ("log", {"_item": "r1", "a": 2.0}, 3, True),
        ("save", str(tmp_path / "t.json"), str(tmp_path), "now"),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="says whose a process is by its command line")
def test_an_orphan_is_ended_and_nobody_else() -> None:
    """Numbers of processes are used again."""
    script = "import sys, time; print(flush=True); time.sleep(60)"
    with subprocess.Popen(
        ["wandb-core", "-c", script, "--pid", "4711"], executable=sys.executable, stdout=subprocess.PIPE
    ) as orphan:
        assert orphan.stdout is not None
        orphan.stdout.readline()
        end_orphan(orphan.pid, 4712)
        assert orphan.poll() is None
        end_orphan(orphan.pid, 4711)
        assert orphan.wait(10) == -9


@pytest.mark.sdk
def test_a_picture_is_one_that_can_be_read(tmp_path: Path) -> None:
    """All else is an artifact."""
    image = tmp_path / "p.png"
    image.write_bytes(
        bytes.fromhex(
            "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
            "0000000a49444154789c636800000082008177cd72b60000000049454e44ae426082"
        )
    )
    facts = {"key": "r1", "time_ns": 0, "name": "p"}
    assert picture(Artifact(**facts, uri=str(image), kind="image")) == (str(image), ".png")
    assert picture(Artifact(**facts, uri=str(image), kind="model")) is None
    assert picture(Artifact(**facts, uri="s3://b/p.png", kind="image")) is None
    image.write_bytes(b"no picture")
    assert picture(Artifact(**facts, uri=str(image), kind="image")) is None
