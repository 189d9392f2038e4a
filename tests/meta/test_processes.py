"""Tests that processes of tests end with their test, whichever process holds their pipes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.processes import end_group, kill_all, processes_with

LEAVES_ONE = """
import subprocess, sys
sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleeps, start_new_session="apart" in sys.argv)
print(child.pid, flush=True)
sys.stdin.read()
"""
"""A process that holds our pipes in its own group, or in another."""


def start(*words: str, **options: Any) -> tuple[subprocess.Popen[str], int]:
    child = subprocess.Popen(
        [sys.executable, "-c", LEAVES_ONE, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )
    assert child.stdout is not None
    return child, int(child.stdout.readline())


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("ended_already", [False, True])
def test_a_group_ends_with_its_child(ended_already: bool, wait_until: Callable[..., Any]) -> None:
    """A process group ends with its child, also if the child itself has gone before."""
    child, grandchild = start()
    if ended_already:
        child.kill()
        child.wait(10)
    end_group(child)
    wait_until(lambda: not lives(grandchild), what="the end of the whole group")


def test_nobody_is_waited_for_who_holds_a_pipe_elsewhere(wait_until: Callable[..., Any]) -> None:
    """A process in another session is found by its environment, and does not keep the tests."""
    mark = f"TM_MARK={os.getpid()}.{time.monotonic_ns()}"
    child, grandchild = start("apart", env={**os.environ, "TM_MARK": mark.partition("=")[2]})
    begun = time.monotonic()
    end_group(child)
    assert time.monotonic() - begun < 10
    assert lives(grandchild)
    assert list(processes_with(mark)) == [grandchild]
    kill_all([grandchild])
    wait_until(lambda: not lives(grandchild), what="its end")
