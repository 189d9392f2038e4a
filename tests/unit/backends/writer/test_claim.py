"""One writer a folder, and what becomes of one that is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.processes import end_group

from telemetry.backends.backend import NotConfigured
from telemetry.backends.writer.process import claim
from telemetry.errors import RunDirectoryError
from telemetry.store.backends import WriterFolder, writer_folder
from telemetry.wire.snapshot import BackendStat

HOLDER = """
import sys, time
from pathlib import Path
from telemetry.backends.writer.process import claim
from telemetry.store.backends import WriterFolder
held = claim(WriterFolder(Path(sys.argv[1])), 0.0)
print("mine", flush=True)
time.sleep(60)
"""
Hold = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def folder(tmp_path: Path) -> WriterFolder:
    made = writer_folder(tmp_path / "job-20260101T000000Z-abc", "jsonl")
    made.make()
    return made


@pytest.fixture
def hold(folder: WriterFolder) -> Iterator[Hold]:
    children = []

    def start(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDER, str(folder.path), *words]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "mine\n"
        return child

    yield start
    for child in children:
        end_group(child)


def test_a_folder_is_free_after_its_writer(folder: WriterFolder, hold: Hold) -> None:
    """However that ended."""
    child = hold()
    child.kill()
    child.wait()
    held = claim(folder, 0.0)
    assert folder.lock.read_text() == f"{os.getpid()}\n"
    held.release()
    held.release()


def test_a_writer_that_is_well_keeps_its_folder(folder: WriterFolder, hold: Hold) -> None:
    """A writer that is well keeps its folder, also if it has just begun and has no status yet."""
    child = hold("--writer")
    for stat in (None, BackendStat(name="jsonl", pid=child.pid, time_ns=time.time_ns())):
        if stat is not None:
            folder.write_status(stat)
        with pytest.raises(NotConfigured, match=f"process {child.pid}, is using"):
            claim(folder, 0.0)
    assert child.poll() is None


def test_a_process_that_is_no_writer_is_left_alone(folder: WriterFolder, hold: Hold) -> None:
    """A process that is no writer is left alone, whatever its state."""
    child = hold()
    child.send_signal(signal.SIGSTOP)
    with pytest.raises(NotConfigured):
        claim(folder, 0.0)
    assert child.poll() is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells who a process is")
@pytest.mark.parametrize("how", ["stopped", "silent"])
def test_a_writer_that_does_nothing_any_more_is_killed(
    folder: WriterFolder, hold: Hold, how: str, wait_until: Callable[..., object]
) -> None:
    """Stopped, or without a word for a while."""
    child = hold("--writer")
    if how == "stopped":
        child.send_signal(signal.SIGSTOP)
        wait_until(lambda: ") T " in Path(f"/proc/{child.pid}/stat").read_text())
    else:
        folder.write_status(BackendStat(name="jsonl", pid=child.pid, time_ns=time.time_ns() - 60 * 10**9))
    claim(folder, 0.0).release()
    assert child.wait(10) == -signal.SIGKILL


def test_a_child_of_a_writer_does_not_hold_its_folder(folder: WriterFolder) -> None:
    """Libraries fork, and their children may live on."""
    program = HOLDER.replace("time.sleep(60)", "import os; pid = os.fork(); time.sleep(60 if pid == 0 else 0)")
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(folder.path)], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        parent.wait(30)
        claim(folder, 0.0).release()
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.communicate()


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    """A missing folder is an error in our own words."""
    with pytest.raises(RunDirectoryError, match="can't lock the writer's folder"):
        claim(WriterFolder(tmp_path / "gone"), 0.0)
