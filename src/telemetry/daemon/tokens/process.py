"""A worker that counts tokens, as the aggregator sees it: a process that is asked, and killed if it is silent."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from telemetry.daemon.tokens import worker
from telemetry.daemon.tokens.worker import FAILED, HEAD

_ANSWER_BYTES: Final = 64 * 1024  # no worker of ours says more
_PIECE_BYTES: Final = 64 * 1024  # a pipe's room
_WAIT_S: Final = 5.0  # for the end of a process that was killed


class WorkerGone(Exception):
    """The worker died, could not begin, or did not answer in time; it is dead now. The text says which."""


class TokenProcess:
    """One thread asks; any thread may kill. Nothing blocks for longer than it is told to."""

    def __init__(self, tokenizer: str) -> None:
        """Does not wait for the tokenizer to be read. Raises WorkerGone if no process can be started."""
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", worker.__file__, tokenizer],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # Ctrl-C at a terminal is the aggregator's
            )
        except OSError as error:
            raise WorkerGone(f"no process can be started: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        for fd in (self._in, self._out):
            os.set_blocking(fd, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def await_ready(self, timeout_s: float) -> None:
        """Until the tokenizer is read. Raises WorkerGone."""
        refusal = self._hear(time.monotonic() + timeout_s)
        if refusal:
            self.kill()
            raise WorkerGone(refusal.decode(errors="replace"))

    def count(self, texts: Sequence[str], timeout_s: float) -> list[int | None]:
        """The number of tokens of each text, None for one that the tokenizer refuses. Raises WorkerGone."""
        deadline = time.monotonic() + timeout_s
        self._say(worker.framed(worker.request(texts)), deadline)
        try:
            counts = worker.counts_of(self._hear(deadline))
        except struct.error:
            counts = []
        if len(counts) != len(texts) or min(counts, default=0) < FAILED:
            raise self._gone("it answered nonsense")
        return [None if number == FAILED else number for number in counts]

    def kill(self) -> None:
        """At once. Again is harmless."""
        self._process.kill()

    def close(self) -> None:
        """As `kill`, and lets go of it. The thread that asks, or when it is over."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel nobody can end
            self._process.wait(_WAIT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    # --- the pipes -------------------------------------------------------------------------------

    def _say(self, data: bytes, deadline: float) -> None:
        left = memoryview(data)
        while left:
            self._await(self._in, select.POLLOUT, deadline)
            try:
                left = left[os.write(self._in, left[:_PIECE_BYTES]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._gone() from error

    def _hear(self, deadline: float) -> bytes:
        (length,) = HEAD.unpack(self._read(HEAD.size, deadline))
        if length > _ANSWER_BYTES:
            raise self._gone("it answered nonsense")
        return self._read(length, deadline)

    def _read(self, size: int, deadline: float) -> bytes:
        data = b""
        while len(data) < size:
            self._await(self._out, select.POLLIN, deadline)
            try:
                piece = os.read(self._out, size - len(data))
            except BlockingIOError:
                continue
            if not piece:
                raise self._gone()
            data += piece
        return data

    def _await(self, fd: int, event: int, deadline: float) -> None:
        poller = select.poll()
        poller.register(fd, event)
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not poller.poll(left_s * 1_000):
            raise self._gone("it did not answer in time")

    def _gone(self, why: str = "") -> WorkerGone:
        """Dead from here on. Without a `why` it is ending by itself."""
        if not why:
            try:
                code = self._process.wait(_WAIT_S)
            except subprocess.TimeoutExpired:
                code = 0
            why = f"it died by signal {-code}" if code < 0 else f"it ended with code {code}"
        self.kill()
        return WorkerGone(why)
