"""A worker process from outside: asked, silent, dead."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from telemetry.daemon.tokens import process as process_module
from telemetry.daemon.tokens.process import TokenProcess, WorkerGone

DEADLINE_S = 20.0
Start = Callable[..., TokenProcess]


@pytest.fixture
def start(tokenizer_file: Path) -> Iterator[Start]:
    """`start(path)` begins a worker, of a good tokenizer unless told otherwise."""
    made: list[TokenProcess] = []

    def begin(path: Path = tokenizer_file) -> TokenProcess:
        made.append(TokenProcess(str(path)))
        return made[-1]

    yield begin
    for process in made:
        process.close()


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """`talk("program")` puts another program in the worker's place."""

    def replace(program: str) -> None:
        path = tmp_path / "stand_in.py"
        path.write_text(program)
        monkeypatch.setattr(process_module, "__file__", str(path))

    return replace


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_worker_counts_as_the_library_does(start: Start, tokenizer_file: Path) -> None:
    """More than a pipe holds at once, in several requests."""
    process = start()
    process.await_ready(DEADLINE_S)
    library = Tokenizer.from_file(str(tokenizer_file))
    texts = ["to be or not to be " * 400, "", "dog"] * 12
    expected = [len(encoding) for encoding in library.encode_batch(texts)]
    for _ in range(2):
        assert process.count(texts, DEADLINE_S) == expected


def test_a_worker_that_is_killed_is_gone(start: Start) -> None:
    """The error for a killed worker tells how it ended."""
    process = start()
    process.await_ready(DEADLINE_S)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(WorkerGone, match="signal 9"):
        process.count(["a"], DEADLINE_S)


@pytest.mark.parametrize("size", [1, 1 << 20], ids=["reading", "writing"])
def test_a_worker_that_hangs_is_killed(start: Start, size: int) -> None:
    """A worker that hangs is killed, whether it reads no request or gives no answer."""
    process = start()
    process.await_ready(DEADLINE_S)
    os.kill(process.pid, signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(WorkerGone, match="in time"):
        process.count(["a" * size], 0.05)
    assert time.monotonic() - begun < DEADLINE_S
    process.close()
    assert gone(process.pid)


@pytest.mark.parametrize(
    "said",
    ["<I', 0) + b'", "<Ii', 4, -2) + b'", "<I', 1 << 31) + b'", "<Iii', 8, 1, 1) + b'", "<Ib', 1, 1) + b'"],
    ids=["too few", "negative", "endless", "too many", "no numbers"],
)
def test_nonsense_is_no_answer(start: Start, talk: Callable[[str], None], said: str) -> None:
    """A worker that says what nobody asked is gone."""
    talk(
        "import os, struct, sys\n"
        f"os.write(1, struct.pack('<I', 0) + struct.pack('{said}')\n"
        "sys.stdin.buffer.read()\n"
    )
    process = start()
    process.await_ready(DEADLINE_S)
    with pytest.raises(WorkerGone, match="invalid answer"):
        process.count(["a"], DEADLINE_S)


def test_why_a_worker_can_t_begin_is_said(start: Start, tmp_path: Path) -> None:
    """The error has the library's words."""
    with pytest.raises(WorkerGone, match="No such file"):
        start(tmp_path / "nowhere.json").await_ready(DEADLINE_S)


def test_no_process_is_a_worker_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that can't start, as on a full machine, is a worker that is gone."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerGone, match="can't start a process"):
        TokenProcess("any")


def test_a_worker_ends_with_its_pipes(start: Start, wait_until: Callable[..., object]) -> None:
    """A worker ends when its pipes close, as at the death of the process that holds them. It need not be killed."""
    process = start()
    process.await_ready(DEADLINE_S)
    inner = process._process
    assert inner.stdin is not None
    inner.stdin.close()
    assert inner.wait(DEADLINE_S) == 0
